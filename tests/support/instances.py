"""What other scripts here read of an archive with the Python package otf2."""

import collections

from otf2.events import Enter, Leave, ParameterUnsignedInt


def properties(definition):
    # The package reads properties of definitions and has no public name for them.
    return {name: said.value for name, said in definition._properties.items()}


def by_name(attributes):
    return {attribute.name: value for attribute, value in attributes.items()}


def instances(trace):
    """Each instance of a region: its location, region, start, stop, and the attributes of both of its events; or of
    the record at its stop, which has the region's name and says how long it took.
    """
    named = {region.name: region for region in trace.definitions.regions if region.canonical_name.startswith("nccl::")}
    stacks = collections.defaultdict(list)
    for location, event in trace.events:
        if isinstance(event, Enter):
            stacks[location].append((event, dict(event.attributes or {})))
        elif isinstance(event, Leave):
            enter, said = stacks[location].pop()
            said.update(event.attributes or {})
            yield location, enter.region, enter.time, event.time, by_name(said)
        elif isinstance(event, ParameterUnsignedInt):
            said = by_name(event.attributes or {})
            yield location, named[event.parameter.name], event.time - said["nccl.duration_ns"], event.time, said
