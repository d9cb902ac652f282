from .arm import Arm as Arm
from .build import build as build
from .classes import (
    ConfigError as ConfigError,
    did_you_mean as did_you_mean,
    load_plugin as load_plugin,
    locate as locate,
)
from .paths import Scope as Scope
from .plan import Plan as Plan, load_plan as load_plan, make_plan as make_plan
from .spec import digest as digest, identity as identity, spec as spec
