"""Published claims, in a sentence each, with the comparison that tests them.

A comparison names a config, a multiple of the trained length, and encodings of the config.
"""

from experiments.analysis import claims
from experiments.analysis.claims import Score, at_least, better, same, spread, untested

# fmt: off
PAPERS = {
    ("Press et al. 2021, ALiBi", "2108.12409"): {
        "A sinusoidal model fails soon past its trained length, where ALiBi still works.":
            better("copy", 2, "alibi", "sinusoidal"),
        "ALiBi reads inputs twice as long as in training without loss.":
            at_least(0.99, Score("copy", 2, "alibi")),
    },
    ("Kazemnejad et al. 2023", "2305.19466"): {
        "A decoder generalises better in length without positional encoding than with RoPE.":
            better("copy", 2, "nope", "rope"),
        "T5's bias generalises better than RoPE.": better("copy", 2, "t5", "rope"),
        "T5's bias generalises better than ALiBi.": better("copy", 2, "t5", "alibi"),
        "ALiBi generalises better than RoPE.": better("copy", 2, "alibi", "rope"),
    },
    ("Jelassi et al. 2024, Repeat After Me", "2402.01032"): {
        "With Hard-ALiBi a transformer copies strings many times longer than in training, almost"
        " perfectly.":
            at_least(0.98, Score("copy", 8, "hard_alibi")),
        "It also does so with repeated symbols, as long as short windows of them are distinct.":
            better("copy_repeats", 2, "hard_alibi", "rope"),
    },
    ("Ruoss et al. 2023, randomised positions", "2305.16843"): {
        "Randomised positions make an encoding generalise to longer inputs; here: copying.":
            better("copy", 4, "random_rope", "rope"),
        "The same; here: reversing.": better("reverse", 4, "random_rope", "rope"),
    },
    ("Chi et al. 2022, KERPLE", "2205.09921"): {
        "The logarithmic kernel extrapolates better than ALiBi's straight line.":
            better("copy", 4, "kerple_log", "alibi"),
    },
    ("Li et al. 2023, FIRE", "2310.04418"): {
        "FIRE generalises to longer inputs better than other additive biases, such as ALiBi.":
            better("copy", 4, "fire", "alibi"),
    },
    ("Sun et al. 2022, xPos", "2212.10554"): {
        "xPos extrapolates better than RoPE.": better("copy", 2, "xpos", "rope"),
    },
    ("Zhou et al. 2023, RASP-L", "2310.16028"): {
        "Copying generalises in length when symbols are unique, and much less when they repeat.":
            claims.compare(Score("copy", 2, "rope"), Score("copy_repeats", 2, "rope")),
    },
    ("Zhou et al. 2024", "2402.09371"): {
        "Length generalisation (in the paper, of addition) varies greatly with the random seed;"
        " here: copying with ALiBi.":
            spread(0.2, Score("copy", 8, "alibi")),
        "The same; here: copying with KERPLE's logarithm.":
            spread(0.2, Score("copy", 8, "kerple_log")),
        "The same; here: reversing with KERPLE's logarithm.":
            spread(0.2, Score("reverse", 8, "kerple_log")),
    },
    ("Chen et al. 2023, position interpolation", "2306.15595"): {
        "Interpolated positions work where extrapolated ones fail, without fine-tuning; here:"
        " sorting.":
            better("sort", 2, "pi", "rope"),
        "The same; here: copying.": better("copy", 2, "pi", "rope"),
        "The same; here: a stream with a fixed lag.": better("lag", 2, "pi", "rope", "loss"),
        "A short fine-tune with interpolation reaches a longer context than one without.":
            better("extend", 4, "pi", "plain"),
    },
    ("Peng et al. 2023, YaRN", "2309.00071"): {
        "NTK-aware scaling works better than interpolation without fine-tuning; here: a stream with"
        " a fixed lag.":
            better("lag", 4, "ntk", "pi", "loss"),
        "The same; here: copying.": better("copy", 2, "ntk", "pi"),
        "The same; here: sorting.": better("sort", 4, "ntk", "pi"),
        "After fine-tuning, interpolation is better than NTK-aware scaling.":
            better("extend", 4, "pi", "ntk"),
        "YaRN is better than interpolation and NTK-aware scaling without fine-tuning; here:"
        " copying, against NTK-aware.":
            better("copy", 4, "yarn", "ntk"),
        "The same; here: copying, against interpolation.": better("copy", 4, "yarn", "pi"),
        "After a short fine-tune, YaRN is better than interpolation.":
            better("extend", 4, "yarn", "pi"),
        "A model fine-tuned with a factor larger than its data needs works up to that factor.":
            untested("the fine-tune of `extend` has the factor that its data need"),
        "The temperature of the softmax lowers the loss; here: sorting.":
            better("sort", 4, "yarn", "yarn_untempered", "loss"),
        "The temperature of the softmax lowers the loss; here: a stream with a fixed lag.":
            better("lag", 8, "yarn", "yarn_untempered", "loss"),
        "The bounds of the ramp should be tuned case by case: the 1 and 32 that suit Llama may not"
        " suit others.":
            better("lag", 8, "yarn_fitted", "yarn", "loss"),
        "A fixed factor costs accuracy at the trained length; here: sorting.":
            better("sort", 1, "rope", "yarn_8"),
        "A fixed factor costs accuracy at the trained length; here: a stream with a fixed lag.":
            better("lag", 1, "rope", "yarn_8"),
    },
    ("Liu et al. 2023, scaling laws of RoPE extrapolation", "2310.05209"): {
        "A base smaller than 10000 (in the paper for fine-tuning, here for training) makes RoPE"
        " extrapolate better: 100.":
            better("beta", 8, "rope_base base=100.0", "rope_base base=10000.0", "loss"),
        "The same: 10.":
            better("beta", 8, "rope_base base=10.0", "rope_base base=10000.0", "loss"),
        "A base larger than 10000 makes RoPE extrapolate better: a million.":
            better("beta", 8, "rope_base base=1000000.0", "rope_base base=10000.0", "loss"),
    },
    ("Men et al. 2024, base of RoPE bounds context", "2405.14591"): {
        "A base too small for the context cannot do what a larger one can.":
            better("beta_copy", 2, "rope", "rope_base base=10.0"),
    },
    ("Gelberg et al. 2025, DroPE", "2512.12167"): {
        "Without fine-tuning, YaRN is no better than cropping the context to the trained length"
        " (here: a window in all layers).":
            same(Score("copy", 2, "yarn"), Score("copy", 2, "cropped")),
    },
    ("Golovneva et al. 2024, CoPE", "2405.18719"): {
        "Contextual positions solve selective copying and counting, where others fail.":
            untested("no task here counts or selects by content"),
    },
    ("Ding et al. 2024, LongRoPE", "2402.13753"): {
        "Factors found by search, one for each band, are better than interpolation, NTK-aware"
        " scaling and YaRN.":
            untested("no search is part of the study; `beta` sweeps one parameter of a rule"),
    },
}
# fmt: on
PUBLISHED = [
    claims.Claim(paper, f"https://arxiv.org/abs/{number}", says, test)
    for (paper, number), tests in PAPERS.items()
    for says, test in tests.items()
]
