"""The YAML files that ship with the package; code in here would be a mistake."""
