//! Definitions refer to what is defined, and the anchor counts what there is.

use std::collections::{BTreeMap, BTreeSet};

use otf2::records::Group;
use otf2::{CommRef, GroupType, LocationRef, Paradigm, StringRef};

use crate::archive::Trace;

use super::findings::{Findings, Rule};

/// Checks all definitions.
pub(crate) fn check(trace: &Trace, findings: &mut Findings) {
    let definitions = &trace.definitions;
    let promised = trace.archive.number_of_locations();
    let there = definitions.locations.len() as u64;
    if promised != there {
        let message = format!("the anchor counts {promised} locations, {there} are defined");
        findings.general(Rule::Anchor, message);
    }
    match &definitions.clock {
        None => findings.general(Rule::Definitions, "there are no clock properties"),
        Some(clock) if clock.timer_resolution == 0 => {
            findings.general(Rule::Definitions, "the clock has 0 ticks per second");
        }
        Some(_) => {}
    }
    strings(trace, findings);
    tree(trace, findings);
    communicators(trace, findings);
}

/// Every name that is needed is there.
fn strings(trace: &Trace, findings: &mut Findings) {
    let definitions = &trace.definitions;
    let mut named = |what: String, name: StringRef, is_needed: bool| {
        let is_there = definitions.strings.contains_key(&name);
        if !is_there && (is_needed || name.is_defined()) {
            findings.general(
                Rule::Definitions,
                format!("{what} has the undefined name {name:?}"),
            );
        }
    };
    for (reference, it) in &definitions.attributes {
        named(format!("{reference:?}"), it.name, true);
    }
    for (reference, it) in &definitions.system_tree_nodes {
        named(format!("{reference:?}"), it.name, true);
    }
    for (reference, it) in &definitions.location_groups {
        named(format!("{reference:?}"), it.name, true);
    }
    for (reference, it) in &definitions.locations {
        named(format!("{reference:?}"), it.name, true);
    }
    for (reference, it) in &definitions.regions {
        named(format!("{reference:?}"), it.name, true);
    }
    for (reference, it) in &definitions.groups {
        named(format!("{reference:?}"), it.name, false);
    }
    for (reference, it) in &definitions.comms {
        named(format!("{reference:?}"), it.name, false);
    }
}

/// Locations are in groups, groups in the system tree.
fn tree(trace: &Trace, findings: &mut Findings) {
    let definitions = &trace.definitions;
    for (reference, node) in &definitions.system_tree_nodes {
        let parent = node.parent;
        if parent.is_defined() && !definitions.system_tree_nodes.contains_key(&parent) {
            let message = format!("{reference:?} is in {parent:?}, which is not defined");
            findings.general(Rule::Definitions, message);
        }
    }
    for (reference, group) in &definitions.location_groups {
        if !definitions
            .system_tree_nodes
            .contains_key(&group.system_tree_parent)
        {
            let parent = group.system_tree_parent;
            let message = format!("{reference:?} is in {parent:?}, which is not defined");
            findings.general(Rule::Definitions, message);
        }
        let creator = group.creator;
        if creator.is_defined() && !definitions.location_groups.contains_key(&creator) {
            let message = format!("{reference:?} was created by {creator:?}, which is not defined");
            findings.general(Rule::Definitions, message);
        }
    }
    for (reference, location) in &definitions.locations {
        if !definitions.location_groups.contains_key(&location.group) {
            let group = location.group;
            let message = format!("{reference:?} is in {group:?}, which is not defined");
            findings.general(Rule::Definitions, message);
        }
    }
}

/// Communicators have groups of indices into the one list of locations of their paradigm.
fn communicators(trace: &Trace, findings: &mut Findings) {
    let definitions = &trace.definitions;
    let mut lists: BTreeMap<Paradigm, &Group> = BTreeMap::new();
    for (reference, group) in &definitions.groups {
        if group.group_type != GroupType::CommLocations {
            continue;
        }
        if lists.insert(group.paradigm, group).is_some() {
            let message = format!(
                "{reference:?} is another list of communicating locations of the paradigm {:?}",
                group.paradigm
            );
            findings.general(Rule::Communicator, message);
        }
        let mut seen = BTreeSet::new();
        for member in &group.members {
            let location = LocationRef::new(*member);
            if !definitions.locations.contains_key(&location) {
                let message = format!("{reference:?} has the member {location:?}, not defined");
                findings.general(Rule::Communicator, message);
            }
            if !seen.insert(member) {
                let message = format!("{reference:?} has the member {location:?} twice");
                findings.general(Rule::Communicator, message);
            }
        }
    }
    for (reference, comm) in &definitions.comms {
        if let Err(reason) = members(trace, *reference, &lists) {
            let message = format!("{reference:?}: {reason}");
            findings.general(Rule::Communicator, message);
        }
        if comm.parent.is_defined() && comm.parent >= *reference {
            let message = format!(
                "{reference:?} has the parent {:?}, defined later",
                comm.parent
            );
            findings.general(Rule::Communicator, message);
        }
    }
}

fn members(
    trace: &Trace,
    reference: CommRef,
    lists: &BTreeMap<Paradigm, &Group>,
) -> Result<(), String> {
    let definitions = &trace.definitions;
    let comm = definitions.comms.get(&reference).ok_or("not defined")?;
    let group = definitions.groups.get(&comm.group);
    let group = group.ok_or_else(|| format!("its group {:?} is not defined", comm.group))?;
    match group.group_type {
        GroupType::CommSelf => return Ok(()),
        GroupType::CommGroup => {}
        other => return Err(format!("its group is of the type {other:?}")),
    }
    if group.members.is_empty() {
        return Err("it has no members".to_owned());
    }
    let list = lists.get(&group.paradigm);
    let list = list.ok_or("there is no list of communicating locations of its paradigm")?;
    let mut seen = BTreeSet::new();
    for (rank, index) in group.members.iter().enumerate() {
        if *index >= list.members.len() as u64 {
            return Err(format!(
                "rank {rank} is member {index} of a list of {}",
                list.members.len()
            ));
        }
        if !seen.insert(index) {
            return Err(format!("rank {rank} is on the location of another rank"));
        }
    }
    Ok(())
}
