"""Parameters that may be a name, such as ``inference="pmd"`` or ``prior="normal"``."""

from typing import ClassVar

from sklearn.base import clone


def by_name(name, known, parameter, what):
    """The entry of ``known`` that a parameter names; ``what`` may be given in place of a name.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    if name not in known:
        names = ", ".join(map(repr, sorted(known)))
        raise ValueError(f"{parameter}={name!r} is unknown; use one of {names}, or {what}.")
    return known[name]


def refuse_class(value, parameter):
    """Refuse a class where an instance is meant, with a TypeError."""
    if isinstance(value, type):
        raise TypeError(
            f"{parameter} is the class {value.__name__}; pass an instance: "
            f"{parameter}={value.__name__}()."
        )


def own_instance(value, kind, parameter, what, known, bases):
    """A clone of an instance of ``kind`` that a parameter holds, its own parameters validated.

    Or a new one of the class that a name stands for.

    Raises
    ------
    ValueError
        For an unknown name.
    TypeError
        For anything else; the message says ``what`` it should be, with the names that are
        ``known`` and the public ``bases`` of such a class.
    """
    if isinstance(value, str):
        return by_name(value, known, parameter, what)()
    refuse_class(value, parameter)
    if not isinstance(value, kind):
        raise TypeError(
            f"{parameter}={value!r} is not {what}; pass a name of {sorted(known)}, or an instance "
            f"of a subclass of {bases}."
        )
    value = clone(value)
    if hasattr(value, "_validate_params"):
        value._validate_params()
    return value


class NamedParameters:
    """What has parameters that may be a name, of something that has parameters itself."""

    # Those parameters, and what turns the name into an instance with its defaults.
    _named_parameters: ClassVar[dict] = {}

    def set_params(self, **params):
        """Set the parameters of this object and of what it contains.

        A parameter given by name, such as ``inference="pmd"`` or ``prior="normal"``, becomes an
        instance of its own when a nested parameter arrives, so that a grid may hold both
        ``inference`` and ``inference__n_particles``.

        Parameters
        ----------
        **params : dict
            Parameters, nested ones as ``<component>__<parameter>``.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a name or a nested parameter is unknown.
        TypeError
            If a component is a class instead of an instance.
        """
        components = {key.partition("__")[0] for key in params if "__" in key}
        for name in sorted(components & self._named_parameters.keys()):
            value = params.get(name, getattr(self, name))
            if isinstance(value, str | type):
                params[name] = self._named_parameters[name](value)
        return super().set_params(**params)  # type: ignore[misc]
