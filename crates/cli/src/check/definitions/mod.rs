//! Definitions refer to what is defined, and the anchor counts what there is.

mod references;

use std::collections::{BTreeMap, BTreeSet};

use analysis::Trace;
use otf2::records::Group;
use otf2::{CommRef, Definitions, GroupType, LocationRef, Paradigm};

use super::findings::Findings;
use super::rules::Rule;
use crate::archive::{is_merged, is_nccl};

pub(super) fn check(trace: &Trace, findings: &mut Findings) {
    let definitions = &trace.definitions;
    let archive = &trace.archive;
    for (promised, there, what) in [
        (archive.number_of_locations(), definitions.locations.len() as u64, "locations"),
        (archive.number_of_global_definitions(), definitions.records, "global definitions"),
    ] {
        if promised != there {
            let message = format!("the anchor counts {promised} {what}, {there} are there");
            findings.general(Rule::Anchor, message);
        }
    }
    // otf2-print and others refuse such an archive.
    if definitions.locations.is_empty() {
        findings.general(Rule::Locations, "there are no locations");
    }
    match &definitions.clock {
        None => findings.general(Rule::Clock, "there are no clock properties"),
        Some(clock) if clock.timer_resolution == 0 => {
            findings.general(Rule::Clock, "the clock has 0 ticks per second");
        }
        Some(_) => {}
    }
    references::check(definitions, findings);
    dense(definitions, findings);
    tree(definitions, findings);
    communicators(definitions, findings);
    // Score-P's locations are before NCCL's in a list that they share.
    if is_nccl(archive) && !is_merged(archive) {
        location_ids(definitions, findings);
    }
}

/// Readers use references as places in tables.
fn dense(definitions: &Definitions, findings: &mut Findings) {
    let mut check = |what: &str, references: &mut dyn Iterator<Item = u32>| {
        for (place, reference) in (0..).zip(references) {
            if place != reference {
                let message = format!("{what} {reference} is defined, {place} is not");
                findings.general(Rule::Dense, message);
                return;
            }
        }
    };
    macro_rules! dense {
        ($($what:literal $field:ident),*) => {
            $(check($what, &mut definitions.$field.keys().map(|reference| reference.get()));)*
        };
    }
    dense!("string" strings, "attribute" attributes, "system tree node" system_tree_nodes,
        "location group" location_groups, "region" regions, "group" groups, "window" rma_wins,
        "metric member" metric_members, "parameter" parameters);
    // Those of these kinds that are only counted share the numbers.
    let are_all_kept = |kind: &str| !definitions.others.contains_key(kind);
    if are_all_kept("InterComm") {
        dense!("communicator" comms);
    }
    if are_all_kept("MetricInstance") {
        dense!("metric class" metric_classes);
    }
}

/// Locations are in groups, groups in the system tree.
fn tree(definitions: &Definitions, findings: &mut Findings) {
    let mut wrong = |message: String| findings.general(Rule::Tree, message);
    for (reference, node) in &definitions.system_tree_nodes {
        let parent = node.parent;
        if parent.is_defined() && !definitions.system_tree_nodes.contains_key(&parent) {
            wrong(format!("{reference:?} is in {parent:?}, which is not defined"));
        } else if parent.is_defined() && parent >= *reference {
            wrong(format!("{reference:?} is in {parent:?}, which is defined later"));
        }
    }
    for (reference, group) in &definitions.location_groups {
        let parent = group.system_tree_parent;
        if !definitions.system_tree_nodes.contains_key(&parent) {
            wrong(format!("{reference:?} is in {parent:?}, which is not defined"));
        }
        let creator = group.creator;
        if creator.is_defined() && !definitions.location_groups.contains_key(&creator) {
            wrong(format!("{reference:?} was created by {creator:?}, which is not defined"));
        }
    }
    for (reference, location) in &definitions.locations {
        let group = location.group;
        if !definitions.location_groups.contains_key(&group) {
            wrong(format!("{reference:?} is in {group:?}, which is not defined"));
        }
    }
}

/// ViTE takes the place of a location in the list for its id.
fn location_ids(definitions: &Definitions, findings: &mut Findings) {
    let groups = definitions.groups.values();
    let lists = groups.filter(|group| group.group_type == GroupType::CommLocations);
    for list in lists {
        let members = list.members.iter();
        for (place, location) in (0_u64..).zip(members) {
            if place != *location {
                let message = format!("place {place} in the list has the location {location}");
                findings.general(Rule::LocationId, message);
                return;
            }
        }
    }
}

/// Communicators have groups of indices into the one list of locations of their paradigm.
fn communicators(definitions: &Definitions, findings: &mut Findings) {
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
        if let Err(reason) = members(definitions, *reference, &lists) {
            let message = format!("{reference:?}: {reason}");
            findings.general(Rule::Communicator, message);
        }
        if comm.parent.is_defined() && comm.parent >= *reference {
            let message = format!("{reference:?} has the parent {:?}, defined later", comm.parent);
            findings.general(Rule::Communicator, message);
        }
    }
}

fn members(definitions: &Definitions, reference: CommRef, lists: &BTreeMap<Paradigm, &Group>) -> Result<(), String> {
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
            return Err(format!("rank {rank} is member {index} of a list of {}", list.members.len()));
        }
        if !seen.insert(index) {
            return Err(format!("rank {rank} is on the location of another rank"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::GroupRef;
    use otf2::records::{Comm, Location};
    use otf2::{LocationGroupRef, LocationType, StringRef};

    /// Two locations, both communicate, and a communicator of these members. The writer of this project
    /// refuses to write most of what is wrong here; others may not.
    fn found(listed: &[u64], members: &[u64], group_type: GroupType) -> Vec<String> {
        let mut definitions = Definitions::default();
        for id in 0..2 {
            let location = Location {
                name: StringRef::UNDEFINED,
                location_type: LocationType::CpuThread,
                number_of_events: 0,
                group: LocationGroupRef::new(0),
                properties: Vec::new(),
            };
            definitions.locations.insert(LocationRef::new(id), location);
        }
        for (number, group_type, members) in [(0, GroupType::CommLocations, listed), (1, group_type, members)] {
            let group = Group {
                name: StringRef::UNDEFINED,
                group_type,
                paradigm: Paradigm::Mpi,
                flags: 0,
                members: members.to_vec(),
            };
            definitions.groups.insert(GroupRef::new(number), group);
        }
        let comm = Comm { name: StringRef::UNDEFINED, group: GroupRef::new(1), parent: CommRef::UNDEFINED, flags: 0 };
        definitions.comms.insert(CommRef::new(0), comm);
        let mut findings = Findings::default();
        communicators(&definitions, &mut findings);
        findings.listed().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn members_are_places_in_the_list() {
        let group = GroupType::CommGroup;
        assert_eq!(found(&[0, 1], &[1, 0], group), [""; 0]);
        for (listed, members, group_type, word) in [
            (&[0, 1][..], &[0, 5][..], group, "member 5 of a list of 2"),
            (&[0, 1], &[0, 0], group, "location of another rank"),
            (&[0, 1], &[], group, "no members"),
            (&[0, 7], &[0, 1], group, "LocationRef(7), not defined"),
            (&[0, 0], &[0, 1], group, "LocationRef(0) twice"),
            (&[0, 1], &[0, 1], GroupType::Regions, "of the type Regions"),
        ] {
            let found = found(listed, members, group_type);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
    }
}
