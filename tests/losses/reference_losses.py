"""A second, slow implementation of all eight losses, one number at a time, from the formulas of the papers.

It shares no code with `delcore`. Numbers are NumPy scalars of one `dtype`: float64 for the truth, float32 for what a
plain computation in single precision would give, whose cross-entropy is PyTorch's own. Where a loss stops the gradient
of a factor, that factor can be computed from other logits (`stopped_at`): a numerical derivative then leaves it alone.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

IGNORE = -100
DEFAULT_ALPHA = {"ntl_was": 0.3, "ntl_mse": 0.3, "dist2": 0.1, "del": 0.1, "del_released": 0.01}
CLIP = -1e5  # DIST2's stated lower limit of log p̂


@dataclass
class SlowOutput:
    total: float
    token_term: float
    digit_term: float
    n_tokens: int
    n_digits: int
    digit_mass: float
    digit_entropy_nats: float
    digit_accuracy: float
    per_position: list[list[float]]


def slow_loss(
    name,
    logits,
    labels,
    vocab,
    *,
    alpha=None,
    step_tokens=None,
    step_digits=None,
    segments=None,
    embedding=None,
    stopped_at=None,
    dtype=np.float64,
    **options,
) -> SlowOutput:
    """The same arguments and the same fields as `numeric_loss`, but Python numbers."""
    rows = _numbers(logits, dtype)
    stopped_rows = rows if stopped_at is None else _numbers(stopped_at, dtype)
    labels = labels.tolist()
    borders = [[0] * len(row) for row in labels] if segments is None else segments.tolist()
    embedding = None if embedding is None else embedding.double().numpy().astype(dtype)
    weight_of_digit_term = DEFAULT_ALPHA.get(name, 0.0) if alpha is None else alpha
    ids, dot = list(vocab.ids), vocab.dot

    per_position, token_sum, digit_sum, n_tokens = [], 0.0, 0.0, 0
    masses, entropies, hits = [], [], []
    for row, stopped_row, row_labels, row_borders in zip(rows, stopped_rows, labels, borders, strict=True):
        u = slow_place_weights(name, row_labels, row_borders, ids, dot, options)
        per_position.append([])
        for z, z_stopped, label, u_t in zip(row, stopped_row, row_labels, u, strict=True):
            if label == IGNORE:
                per_position[-1].append(0.0)
                continue
            n_tokens += 1
            token = token_term(name, z, label, z_stopped, embedding, options)
            digit = u_t * digit_term(name, z, label, ids, dot, options) if u_t else 0.0
            token_sum, digit_sum = token_sum + token, digit_sum + digit
            per_position[-1].append(token + weight_of_digit_term * digit)
            if label in ids:
                a = [z[i] for i in ids]
                masses.append(np.exp(log_mass(a, z)))
                entropies.append(entropy(softmax(a)))
                hits.append(max(range(10), key=a.__getitem__) == ids.index(label))
    n_digits = len(masses)
    divisor = n_digits if step_digits is None or name == "del_released" else step_digits
    token_mean = token_sum / max(n_tokens if step_tokens is None else step_tokens, 1)
    digit_mean = weight_of_digit_term * digit_sum / max(divisor, 1)
    return SlowOutput(
        total=token_mean + digit_mean,
        token_term=token_mean,
        digit_term=digit_mean,
        n_tokens=n_tokens,
        n_digits=n_digits,
        digit_mass=sum(masses) / max(n_digits, 1),
        digit_entropy_nats=sum(entropies) / max(n_digits, 1),
        digit_accuracy=sum(hits) / max(n_digits, 1),
        per_position=per_position,
    )


def _numbers(logits, dtype):
    return [[[dtype(value) for value in position] for position in row] for row in logits.tolist()]


# ---------------------------------------------------------------- what replaces or follows cross-entropy


def token_term(name, z, label, z_stopped, embedding, options):
    """Token term at one position; the stopped factor is taken from `z_stopped`."""
    cross_entropy = cross_entropy_of(z, label)
    if name == "mixce":
        eta = options.get("eta", 0.5)
        q = np.exp(-cross_entropy_of(z_stopped, label))
        return (eta + (1 - eta) * q) * cross_entropy
    if name == "emo":
        e = transport_cost(z, label, embedding)
        e_stopped = transport_cost(z_stopped, label, embedding)
        cross_entropy_stopped = cross_entropy_of(z_stopped, label)
        form = options.get("form", "capped")
        if form == "anchored":
            return e + e_stopped / (cross_entropy_stopped + 1e-10) * cross_entropy
        factor = cross_entropy_stopped / (e_stopped + 1e-10)
        if form == "capped":
            factor = min(factor, options.get("cap", 3.0))
        return 0.5 * (cross_entropy + factor * e)
    return cross_entropy


def cross_entropy_of(z, label):
    """−log q[label]; in float32 as PyTorch computes it, which is what a user would have without delcore."""
    if isinstance(z[label], np.float32):
        return np.float32(F.cross_entropy(torch.tensor(np.array(z)), torch.tensor(label)).item())
    return -log_softmax(z)[label]


def transport_cost(z, label, embedding):
    """One minus the expected cosine between the label's embedding and that of a token drawn from the model."""
    expected = 0.0
    for q, row in zip(softmax(z), embedding, strict=False):  # an embedding may have more rows than logits
        dot_product = sum(x * y for x, y in zip(row, embedding[label], strict=True))
        lengths = np.sqrt(sum(x * x for x in row)) * np.sqrt(sum(x * x for x in embedding[label]))
        expected = expected + q * (dot_product / lengths)
    return 1 - expected


# ---------------------------------------------------------------- the digit terms


def digit_term(name, z, label, ids, dot, options):
    """ℓ at one digit position (or, with `dot`, at a decimal point), without α and u."""
    a = [z[i] for i in ids]
    if name == "del" and options.get("dot"):
        a = [*a, z[dot]]
    c = 10 if label == dot else ids.index(label)
    if name in ("ntl_was", "ntl_mse"):
        return _number_token_loss(name, a, c, z, options)
    if name == "dist2":
        return _dist2(a, c, z, options)
    if name == "del_released":
        return _digit_entropy(a, c, {}) / 10
    return _digit_entropy(a, c, options) if name == "del" else 0.0


def _number_token_loss(name, a, c, z, options):
    values = digit_values(options.get("distance", "numeric"))
    p = softmax(a)
    if name == "ntl_was":
        loss, largest = sum(abs(values[k] - values[c]) * p[k] for k in range(10)), 9
    else:
        loss, largest = (sum(values[k] * p[k] for k in range(10)) - values[c]) ** 2, 81
    form = options.get("form", "paper")
    if form == "released":
        return loss / 10
    if form == "reweighed":
        mass = np.exp(log_mass(a, z))
        return mass * loss + 1.01 * largest * (1 - mass)
    return loss


def _dist2(a, c, z, options):
    values, tau = digit_values(options.get("distance", "numeric")), options.get("tau", 1.0)
    target = softmax([a[0].dtype.type(-((values[k] - values[c]) ** 2) / tau) for k in range(10)])
    classes = z if options.get("softmax") == "vocabulary" else a
    top = max(classes)
    everything = log_sum_exp([logit - top for logit in classes])
    loss = 0.0
    for g, logit in zip(target, a, strict=True):
        if g > 0:
            loss = loss + g * (np.log(g) - max(logit - top - everything, CLIP))
    return loss


def _digit_entropy(a, c, options):
    p = softmax(a)
    criterion = options.get("criterion", "bce")
    loss = 0.0
    for k, (p_k, log_p) in enumerate(zip(p, log_softmax(a), strict=True)):
        if criterion == "cross_entropy":
            term = -log_p if k == c else 0.0
        elif p_k == 0:
            term = 0.0
        elif criterion == "entropy":
            term = -p_k * log_p
        elif options.get("bce", "sigmoid") == "sigmoid":
            term = p_k * (softplus(-a[k]) if k == c else softplus(a[k]))
        elif k == c:
            term = -p_k * log_p
        else:
            term = -p_k * log_mass([a[j] for j in range(len(a)) if j != k], a)
        if options.get("distance") == "l1":
            term = term * _steps_between(k, c)
        loss = loss + term
    return loss


def _steps_between(k, c):
    # The dot, class 10, is as far from every digit as can be, and at no distance from itself.
    return (0 if k == c else 10) if 10 in (k, c) else abs(k - c)


def digit_values(distance):
    """Which number each digit class stands for."""
    if distance == "numeric":
        return [float(k) for k in range(10)]
    generator = torch.Generator().manual_seed(int(distance.removeprefix("permuted:")))
    return [float(value) for value in torch.randperm(10, generator=generator)]


# ---------------------------------------------------------------- place weights

DEFAULT_PLACE = {"del": "decimal", "del_released": "released"}


def slow_place_weights(name, labels, borders, ids, dot, options):
    """The weight u of each position of one row, 0 where there is no digit term."""
    released_dist2 = name == "dist2" and options.get("form") == "released"
    rule = options.get("place") or ("integer" if released_dist2 else DEFAULT_PLACE.get(name, "none"))
    text = "".join(str(ids.index(i)) if i in ids else "." if i == dot else " " for i in labels)
    weights = []
    start = 0
    for stop in range(1, len(text) + 1):
        if stop == len(text) or borders[stop] != borders[start]:
            weights += _weights_of_sample(text[start:stop], rule, options)
            start = stop
    return weights


def _weights_of_sample(text, rule, options):
    factor, base = options.get("integer_factor", 2.0), options.get("decimal_base", 1.02)
    weights = [0.0] * len(text)
    for i, character in enumerate(text):
        if not character.isdigit():
            continue
        point = _decimal_point(text, i)
        if options.get("dot") and point is not None:
            weights[point] = 0.5
        if rule == "none":
            weights[i] = 1.0
        elif rule == "integer":
            weights[i] = _digits_after(text, i) + 1.0
        elif rule == "released":
            weights[i] = _released_weight(text, i)
        elif point is None or point > i:
            weights[i] = factor * (_digits_after(text, i) + 1)
        else:
            weights[i] = base ** (point - i - 1)
    return weights


def _digits_after(text, i):
    return len(text[i + 1 :]) - len(text[i + 1 :].lstrip("0123456789"))


def _decimal_point(text, i):
    """Where the point of the number around digit i is, if it is a decimal: one dot, with a digit behind it."""
    start = stop = i
    while start > 0 and (text[start - 1].isdigit() or (text[start - 1] == "." and text[start].isdigit())):
        start -= 1
    if start > 0 and text[start] == "." and text[start - 1] == ".":
        start += 1  # a dot behind a dot joins nothing
    while stop + 1 < len(text) and (
        text[stop + 1].isdigit() or (text[stop + 1] == "." and text[stop + 2 : stop + 3].isdigit())
    ):
        stop += 1
    dots = [j for j in range(start, stop + 1) if text[j] == "."]
    return dots[0] if len(dots) == 1 else None


def _released_weight(text, i):
    start = stop = i
    while start > 0 and text[start - 1] in "0123456789.":
        start -= 1
    while stop + 1 < len(text) and text[stop + 1] in "0123456789.":
        stop += 1
    point = text.find(".", start, stop + 1)
    if point <= start:  # no dot, or one in front: every position counts as an integer place
        return 2.0 * (stop - i + 1)
    return 2.0 * (point - i) if point > i else 1.02 ** (point - i - 1)


# ---------------------------------------------------------------- elementary functions


def log_sum_exp(values):
    top = max(values)
    return top + np.log(sum(np.exp(value - top) for value in values))


def log_softmax(values):
    """The largest goes first: added to a small logarithm, it would swallow it."""
    top = max(values)
    logarithm = np.log(sum(np.exp(value - top) for value in values))
    return [value - top - logarithm for value in values]


def log_mass(a, z):
    """Logarithm of the probability that the token is one of `a`'s among `z`."""
    top = max(z)
    return log_sum_exp([value - top for value in a]) - log_sum_exp([value - top for value in z])


def softmax(values):
    top = max(values)
    exponentials = [np.exp(value - top) for value in values]
    total = sum(exponentials)
    return [value / total for value in exponentials]


def softplus(value):
    return max(value, value.dtype.type(0)) + np.log1p(np.exp(-abs(value)))


def entropy(probabilities):
    return -sum(p * np.log(p) for p in probabilities if p > 0)
