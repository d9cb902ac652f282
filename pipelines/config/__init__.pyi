from .build import build as build
from .classes import ConfigError as ConfigError
from .plan import Plan as Plan, load_plan as load_plan
