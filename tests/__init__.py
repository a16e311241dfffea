"""The decorator that the test run puts on every function of delcore: beartype, where an int passes for a float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
