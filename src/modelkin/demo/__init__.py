"""Small models that come with the package, so that everything can be tried without a network."""

from modelkin.demo._models import demo_model, demo_zoo

__all__ = ["demo_model", "demo_zoo"]
