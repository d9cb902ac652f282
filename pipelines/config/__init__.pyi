from .build import build as build
from .classes import ConfigError as ConfigError
from .keys import Key as Key
from .plan import Plan as Plan, load_plan as load_plan
