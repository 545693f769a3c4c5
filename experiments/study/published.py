"""The claims that `experiments.study.claims` judges, in a sentence each; the comparisons name encodings as the configs do."""

from functools import partial

from experiments.study.claims import Alike, AtLeast, Claim, Higher, Score, Spread, Untested

COPY, REVERSE, SORT, LAG = (partial(Score, name) for name in ("copy", "reverse", "sort", "lag"))
EXTEND, BETA, BETA_COPY, REPEATS = (partial(Score, name) for name in ("extend", "beta", "beta_copy", "copy_repeats"))

PRESS = ("Press et al. 2021, ALiBi", "https://arxiv.org/abs/2108.12409")
KAZEMNEJAD = ("Kazemnejad et al. 2023", "https://arxiv.org/abs/2305.19466")
CHEN = ("Chen et al. 2023, position interpolation", "https://arxiv.org/abs/2306.15595")
PENG = ("Peng et al. 2023, YaRN", "https://arxiv.org/abs/2309.00071")
JELASSI = ("Jelassi et al. 2024, Repeat After Me", "https://arxiv.org/abs/2402.01032")
RUOSS = ("Ruoss et al. 2023, randomised positions", "https://arxiv.org/abs/2305.16843")
CHI = ("Chi et al. 2022, KERPLE", "https://arxiv.org/abs/2205.09921")
LI = ("Li et al. 2023, FIRE", "https://arxiv.org/abs/2310.04418")
SUN = ("Sun et al. 2022, xPos", "https://arxiv.org/abs/2212.10554")
ZHOU = ("Zhou et al. 2023, RASP-L", "https://arxiv.org/abs/2310.16028")
ZHOU_2 = ("Zhou et al. 2024", "https://arxiv.org/abs/2402.09371")
LIU = ("Liu et al. 2023, scaling laws of RoPE extrapolation", "https://arxiv.org/abs/2310.05209")
MEN = ("Men et al. 2024, base of RoPE bounds context", "https://arxiv.org/abs/2405.14591")
DROPE = ("Gelberg et al. 2025, DroPE", "https://arxiv.org/abs/2512.12167")
COPE = ("Golovneva et al. 2024, CoPE", "https://arxiv.org/abs/2405.18719")
LONGROPE = ("Ding et al. 2024, LongRoPE", "https://arxiv.org/abs/2402.13753")

PUBLISHED = [
    Claim(
        *PRESS,
        "A sinusoidal model fails soon past its trained length, where ALiBi goes on.",
        Higher(COPY("alibi", 2), COPY("sinusoidal", 2)),
    ),
    Claim(*PRESS, "ALiBi reads inputs twice as long as in training without loss.", AtLeast(COPY("alibi", 2), 0.99)),
    Claim(
        *KAZEMNEJAD,
        "Without positional encoding a decoder generalises better in length than with RoPE.",
        Higher(COPY("nope", 2), COPY("rope", 2)),
    ),
    Claim(*KAZEMNEJAD, "T5's bias generalises better than RoPE.", Higher(COPY("t5", 2), COPY("rope", 2))),
    Claim(*KAZEMNEJAD, "T5's bias generalises better than ALiBi.", Higher(COPY("t5", 2), COPY("alibi", 2))),
    Claim(*KAZEMNEJAD, "ALiBi generalises better than RoPE.", Higher(COPY("alibi", 2), COPY("rope", 2))),
    Claim(
        *JELASSI,
        "With Hard-ALiBi a transformer copies strings many times longer than in training, almost perfectly.",
        AtLeast(COPY("hard_alibi", 8), 0.98),
    ),
    Claim(
        *JELASSI,
        "It does so with repeated symbols too, as long as short windows of them are distinct.",
        Higher(REPEATS("hard_alibi", 2), REPEATS("rope", 2)),
    ),
    Claim(
        *RUOSS,
        "Randomised positions make an encoding generalise to longer inputs; here: copying.",
        Higher(COPY("random_rope", 4), COPY("rope", 4)),
    ),
    Claim(*RUOSS, "The same; here: reversing.", Higher(REVERSE("random_rope", 4), REVERSE("rope", 4))),
    Claim(
        *CHI,
        "The logarithmic kernel extrapolates better than ALiBi's straight line.",
        Higher(COPY("kerple_log", 4), COPY("alibi", 4)),
    ),
    Claim(
        *LI,
        "FIRE generalises to longer inputs better than other additive biases, such as ALiBi.",
        Higher(COPY("fire", 4), COPY("alibi", 4)),
    ),
    Claim(*SUN, "xPos extrapolates better than RoPE.", Higher(COPY("xpos", 2), COPY("rope", 2))),
    Claim(
        *ZHOU,
        "Copying generalises in length when symbols are unique, and much less when they repeat.",
        Higher(COPY("rope", 2), REPEATS("rope", 2)),
    ),
    Claim(
        *ZHOU_2,
        "Length generalisation (in the paper, of addition) varies greatly with the random seed; here: copying, with ALiBi.",
        Spread(COPY("alibi", 8), 0.2),
    ),
    Claim(*ZHOU_2, "The same; here: copying, with KERPLE's logarithm.", Spread(COPY("kerple_log", 8), 0.2)),
    Claim(*ZHOU_2, "The same; here: reversing, with KERPLE's logarithm.", Spread(REVERSE("kerple_log", 8), 0.2)),
    Claim(
        *CHEN,
        "Interpolated positions work where extrapolated ones fail, without fine-tuning; here: sorting.",
        Higher(SORT("pi", 2), SORT("rope", 2)),
    ),
    Claim(*CHEN, "The same; here: copying.", Higher(COPY("pi", 2), COPY("rope", 2))),
    Claim(*CHEN, "The same; here: a stream with a fixed lag.", Higher(LAG("pi", 2, "loss"), LAG("rope", 2, "loss"))),
    Claim(
        *CHEN,
        "A short fine-tune with interpolation reaches a longer context than one without.",
        Higher(EXTEND("pi", 4), EXTEND("plain", 4)),
    ),
    Claim(
        *PENG,
        "NTK-aware scaling works better than interpolation without fine-tuning; here: a stream with a fixed lag.",
        Higher(LAG("ntk", 4, "loss"), LAG("pi", 4, "loss")),
    ),
    Claim(*PENG, "The same; here: copying.", Higher(COPY("ntk", 2), COPY("pi", 2))),
    Claim(*PENG, "The same; here: sorting.", Higher(SORT("ntk", 4), SORT("pi", 4))),
    Claim(
        *PENG, "After fine-tuning, interpolation is better than NTK-aware scaling.", Higher(EXTEND("pi", 4), EXTEND("ntk", 4))
    ),
    Claim(
        *PENG,
        "YaRN is better than interpolation and NTK-aware scaling without fine-tuning; here: copying, against NTK-aware.",
        Higher(COPY("yarn", 4), COPY("ntk", 4)),
    ),
    Claim(*PENG, "The same; here: copying, against interpolation.", Higher(COPY("yarn", 4), COPY("pi", 4))),
    Claim(*PENG, "After a short fine-tune, YaRN is better than interpolation.", Higher(EXTEND("yarn", 4), EXTEND("pi", 4))),
    Claim(
        *PENG,
        "A model fine-tuned with a factor larger than that of its data reaches the length of the factor.",
        Untested("the fine-tune of `extend` has the factor of its data"),
    ),
    Claim(
        *PENG,
        "The temperature of the softmax lowers the loss; here: sorting.",
        Higher(SORT("yarn", 4, "loss"), SORT("yarn_untempered", 4, "loss")),
    ),
    Claim(
        *PENG,
        "The same; here: a stream with a fixed lag.",
        Higher(LAG("yarn", 8, "loss"), LAG("yarn_untempered", 8, "loss")),
    ),
    Claim(
        *PENG,
        "The bounds of the ramp should be tuned case by case: the 1 and 32 that suit Llama need not suit others.",
        Higher(LAG("yarn_fitted", 8, "loss"), LAG("yarn", 8, "loss")),
    ),
    Claim(
        *PENG,
        "A factor fixed beforehand costs accuracy at the trained length; here: sorting.",
        Higher(SORT("rope", 1), SORT("yarn_8", 1)),
    ),
    Claim(*PENG, "The same; here: a stream with a fixed lag.", Higher(LAG("rope", 1), LAG("yarn_8", 1))),
    Claim(
        *LIU,
        "A base smaller than 10000 (in the paper, fine-tuned with it; here, trained) makes RoPE extrapolate better: 100.",
        Higher(BETA("rope_base base=100.0", 8, "loss"), BETA("rope_base base=10000.0", 8, "loss")),
    ),
    Claim(
        *LIU,
        "The same: 10.",
        Higher(BETA("rope_base base=10.0", 8, "loss"), BETA("rope_base base=10000.0", 8, "loss")),
    ),
    Claim(
        *LIU,
        "A base larger than 10000 makes RoPE extrapolate better: a million.",
        Higher(BETA("rope_base base=1000000.0", 8, "loss"), BETA("rope_base base=10000.0", 8, "loss")),
    ),
    Claim(
        *MEN,
        "A base too small for the context cannot do what a larger one can.",
        Higher(BETA_COPY("rope", 2), BETA_COPY("rope_base base=10.0", 2)),
    ),
    Claim(
        *DROPE,
        "Without fine-tuning, YaRN is no better than cropping the context to what was trained (here: a window in all layers).",
        Alike(COPY("yarn", 2), COPY("cropped", 2)),
    ),
    Claim(
        *COPE,
        "Contextual positions solve selective copying and counting, where others fail.",
        Untested("no task here counts or selects by content"),
    ),
    Claim(
        *LONGROPE,
        "Factors searched for each band are better than interpolation, NTK-aware scaling and YaRN.",
        Untested("no search is part of the study; `beta` sweeps one parameter of a rule"),
    ),
]
