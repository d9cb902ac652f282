from .arm import Arm as Arm
from .build import (
    ConfigError as ConfigError,
    Scope as Scope,
    build as build,
    load_plugin as load_plugin,
    locate as locate,
)
from .plan import Plan as Plan, load_plan as load_plan, make_plan as make_plan
from .spec import digest as digest, identity as identity, spec as spec
from .suggest import did_you_mean as did_you_mean
