"""Little made-up stories, for when there is no internet."""
import random

NAMES = "anna tom ella max nina paul rosa ivan".split()
NUMBERS = "zero one two three four five six seven eight nine ten".split()
TOPICS = {
    "farm": dict(
        things="goat cow hen plough fence bucket".split(),
        places="barn meadow stable orchard".split(),
        looks="muddy brown sleepy old".split(),
        deeds="fed chased painted counted".split()),
    "kitchen": dict(
        things="pan cake spoon soup apron kettle".split(),
        places="pantry oven cellar sink".split(),
        looks="sweet burnt clean warm".split(),
        deeds="stirred baked tasted washed".split()),
    "sea": dict(
        things="boat net anchor gull shell sail".split(),
        places="harbour bay lighthouse cabin".split(),
        looks="wet salty blue broken".split(),
        deeds="hauled mended spotted sank".split()),
    "school": dict(
        things="book pencil map bell chalk desk".split(),
        places="library hall yard attic".split(),
        looks="thin heavy new dusty".split(),
        deeds="read lost copied carried".split()),
}
TOPIC_NAMES = list(TOPICS)


def sentence(r, topic=None):
    w = TOPICS[topic or r.choice(TOPIC_NAMES)]
    a, b = r.sample(NAMES, 2)
    t, u = r.sample(w["things"], 2)
    p, q = r.sample(w["places"], 2)
    x, y = r.sample(w["looks"], 2)
    v = r.choice(w["deeds"])
    k = r.randrange(6)
    if k == 0:
        return f"{a} {v} the {x} {t} in the {p} , so {b} helped {a} ."
    if k == 1:
        return f"the {t} is {x} and the {u} is {y} , but {a} likes the {t} ."
    if k == 2:
        return f"{a} and {b} went to the {p} ; there {b} {v} a {t} for {a} ."
    if k == 3:
        n, m = r.randint(0, 5), r.randint(0, 5)
        return f"{NUMBERS[n]} and {NUMBERS[m]} {t} s are {NUMBERS[n + m]} {t} s ."
    if k == 4:
        return f"{a} asked {b} : where is the {t} ? in the {p} , {b} said to {a} ."
    return f"if the {t} is not in the {p} , {a} said , then the {t} is in the {q} ."


def sentences(n, seed=0):
    r = random.Random(seed)
    return [sentence(r) for _ in range(n)]


def paragraphs(n, size=4, seed=0):
    """(text, topic number) pairs; the sentences of a paragraph share a topic"""
    r = random.Random(seed)
    out = []
    for _ in range(n):
        k = r.randrange(len(TOPIC_NAMES))
        out.append((" ".join(sentence(r, TOPIC_NAMES[k]) for _ in range(size)), k))
    return out


def story(n_chars, seed=0):
    r = random.Random(seed)
    out, size = [], 0
    while size < n_chars:
        s = sentence(r, r.choice(TOPIC_NAMES))
        out.append(s)
        size += len(s) + 1
    return "\n".join(out)[:n_chars]


def words():
    """every word a story may contain, sorted"""
    vocab = set(NAMES) | set(NUMBERS)
    for w in TOPICS.values():
        for group in w.values():
            vocab |= set(group)
    vocab |= set("the in , so helped . is and but likes went to ; there a for s are asked : where ? said if not then".split())
    return sorted(vocab)
