"""Small made-up corpus: village stories, tagged sentences, and notes about topics."""
import random

NAMES = "anna bruno clara dmitri elena farid greta hugo ines jonas katja liam".split()
JOBS = "farmer baker miller teacher sailor weaver doctor smith".split()
ADJ = "old young tired clever quiet cheerful hungry careful".split()
THINGS = "apple basket candle hammer kettle ladder mirror needle pillow ribbon saddle teapot".split()
COLOURS = "red green yellow brown silver".split()
PLACES = "river market bridge garden harbour chapel forest".split()
NUM = "two three four five six seven eight nine".split()
WHEN = "in the morning,at noon,after the rain,before sunset,last winter".split(",")


def sentence(r, who=None):
    who = who or r.choice(NAMES)
    k = r.randrange(6)
    if k == 0:
        t = r.choice(THINGS)
        return f"{who} bought a {r.choice(COLOURS)} {t} near the {r.choice(PLACES)} and gave the {t} to {r.choice(NAMES)}."
    if k == 1:
        return f"the {r.choice(ADJ)} {r.choice(JOBS)} carried {r.choice(NUM)} {r.choice(THINGS)}s to the {r.choice(PLACES)}."
    if k == 2:
        return f"{r.choice(WHEN)} {who} walked with {who}'s {r.choice(JOBS)} along the {r.choice(PLACES)}."
    if k == 3:
        p = r.choice(PLACES)
        return f"nobody saw {who} at the {p}, because the {p} was closed {r.choice(WHEN)}."
    if k == 4:
        j = r.choice(JOBS)
        return f"the {j} asked {who} for {r.choice(NUM)} {r.choice(THINGS)}s, but {who} sold the {j} only one."
    return f"{who} is {r.choice(ADJ)} and {r.choice(ADJ)}, said the {r.choice(JOBS)}."


def story(n, seed):
    """about n sentences as one string"""
    r = random.Random(seed)
    out = []
    while len(out) < n:
        who = r.choice(NAMES)
        for _ in range(r.randint(2, 4)):
            out.append(sentence(r, who))
    return " ".join(out[:n])


ALPHABET = sorted(set(story(3000, 0)))


# ---------------------------------------------------------------- tagged sentences
BOTH = "walk watch play plant water cook paint guard fish paper trade visit".split()   # noun or verb
TAGS = ["DET", "ADJ", "NOUN", "VERB", "PRON", "PREP", "AUX", "NAME", "ADV", "PUNCT"]


def tagged(n, seed):
    r = random.Random(seed)
    res = []

    def noun_phrase(own=True):
        k = r.random()
        if k < .2:
            return [(r.choice(NAMES), "NAME")]
        if k < .3:
            return [(r.choice(["they", "we", "you"]), "PRON")]
        np = [(r.choice(["the", "a", "her", "that"]), "DET")]
        while r.random() < .35:
            np.append((r.choice(ADJ + COLOURS), "ADJ"))
        np.append((r.choice(BOTH + JOBS + THINGS), "NOUN") if r.random() < .7 else (r.choice(BOTH), "NOUN"))
        if r.random() < .2:
            np += [(r.choice(["near", "with", "for"]), "PREP"), ("the", "DET"), (r.choice(PLACES + BOTH), "NOUN")]
        return np

    for _ in range(n):
        s = noun_phrase()
        if r.random() < .5:
            s.append((r.choice(["will", "can", "may"]), "AUX"))
        if r.random() < .25:
            s.append((r.choice(["often", "rarely", "early"]), "ADV"))
        s.append((r.choice(BOTH), "VERB"))
        if r.random() < .5:
            s += noun_phrase()
        elif r.random() < .4:
            s.append((r.choice(["her", "that"]), "PRON"))
        if r.random() < .3:
            s.append((r.choice(["often", "rarely", "early"]), "ADV"))
        s.append((r.choice([".", "!", "?"]), "PUNCT"))
        res.append(([w for w, _ in s], [t for _, t in s]))
    return res


# ---------------------------------------------------------------- notes about topics
TOPICS = {
    "sport": "goal match referee sprint coach stadium medal racket".split(),
    "kitchen": "oven flour butter recipe spoon pepper boil roast".split(),
    "law": "court judge verdict appeal lawyer clause contract jury".split(),
    "weather": "storm cloud thunder frost drizzle forecast humid breeze".split(),
    "money": "loan market interest share credit profit budget tax".split(),
    "music": "violin chord rhythm concert singer melody drum tempo".split(),
}
FILL = ("the a of and to was with from this that some very quite again never always people day "
        "yesterday town told thought about").split() + NAMES + PLACES


def notes(n, seed):
    """list of (words, topic number): mostly filler; a few words of the topic, one or two of another one"""
    r = random.Random(seed)
    keys = list(TOPICS)
    res = []
    for _ in range(n):
        y = r.randrange(len(keys))
        m = r.randint(6, 28)
        words = [r.choice(FILL) for _ in range(m)]
        other = r.choice([k for k in range(len(keys)) if k != y])
        extra = [r.choice(TOPICS[keys[y]]) for _ in range(r.randint(2, 4))]
        if r.random() < .5:
            extra.append(r.choice(TOPICS[keys[other]]))
        for w in extra:
            words.insert(r.randint(0, len(words)), w)
        res.append((words, y))
    return res
