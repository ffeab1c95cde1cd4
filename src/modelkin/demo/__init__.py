"""Small models that come with the package, so that everything can be tried without a network."""

from modelkin.demo._models import DEMO_MODELS, copy_demo_models, demo_model, demo_path, demo_zoo
