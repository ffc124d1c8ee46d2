//! Checks that definitions refer only to defined ones, that the anchor's counts are right, that every location has its
//! files, complete, with as many events as the definitions state, and that there are no other files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::rules::{Findings, Rule};
use analysis::{Trace, is_merged, is_nccl};
use nccl_events::archive::LocationKind;
use nccl_events::schema::definition::ThreadId;
use nccl_events::sort::Gather as _;
use otf2::records::{Group, Location, Property};
use otf2::{
    AttributeValue, CommRef, Definitions, GroupRef, GroupType, LocationGroupRef, LocationRef, Paradigm, StringRef,
    check_event_file,
};

pub(crate) fn check_definitions(trace: &Trace, findings: &mut Findings) {
    let definitions = &trace.definitions;
    let archive = &trace.archive;
    for (promised, there, what) in [
        (archive.number_of_locations(), definitions.locations.len() as u64, "locations"),
        (archive.number_of_global_definitions(), definitions.records, "global definitions"),
    ] {
        if promised != there {
            findings.general(Rule::Anchor, format!("the anchor counts {promised} {what}, but there are {there}"));
        }
    }
    // otf2-print and others refuse such an archive.
    if definitions.locations.is_empty() {
        findings.general(Rule::Locations, "the archive has no locations");
    }
    match &definitions.clock {
        None => findings.general(Rule::Clock, "the archive has no clock properties"),
        Some(clock) if clock.timer_resolution == 0 => {
            findings.general(Rule::Clock, "the clock has 0 ticks per second");
        }
        Some(_) => {}
    }
    references(definitions, findings);
    names(definitions, findings);
    properties(definitions, findings);
    dense(definitions, findings);
    tree(definitions, findings);
    communicators(definitions, trace.statements.ranks_unlocated.get() == 0, findings);
    // In a list shared with Score-P, Score-P's locations precede NCCL's.
    if is_nccl(archive) && !is_merged(archive) {
        location_ids(definitions, findings);
        one_location_each(trace, findings);
    }
}

/// What a location stands for is in its name; a thread without an id may be any.
fn one_location_each(trace: &Trace, findings: &mut Findings) {
    let mut known: BTreeSet<(LocationGroupRef, LocationKind, StringRef)> = BTreeSet::new();
    for (reference, location) in &trace.definitions.locations {
        let has_id = |kind| {
            use LocationKind::{ApiThread, CallbackThread, ProxyThread};
            !matches!(kind, ApiThread | CallbackThread | ProxyThread)
                || trace.location_property(*reference, ThreadId).is_some()
        };
        if let Some(kind) = trace.location_kind(*reference).filter(|kind| has_id(*kind))
            && !known.insert((location.group, kind, location.name))
        {
            let message = format!("{} is defined twice", trace.location_name(*reference));
            findings.at((trace, *reference), None, Rule::OneLocation, message);
        }
    }
}

fn references(definitions: &Definitions, findings: &mut Findings) {
    let mut wrong = |message: String| findings.general(Rule::DefinitionReference, message);
    for (reference, win) in &definitions.rma_wins {
        if !definitions.has_comm(win.comm) {
            wrong(format!("{reference:?} is of {:?}, which is not defined", win.comm));
        }
    }
    for (reference, class) in &definitions.metric_classes {
        for member in &class.members {
            if !definitions.metric_members.contains_key(member) {
                wrong(format!("{reference:?} has {member:?}, which is not defined"));
            }
        }
    }
}

/// Checks that every required name is defined, and every optional one if given.
fn names(definitions: &Definitions, findings: &mut Findings) {
    let mut named = |what: String, role: &str, name: StringRef, is_needed: bool| {
        if !definitions.strings.contains_key(&name) && (is_needed || name.is_defined()) {
            let message = format!("{what} has the {role} {name:?}, which is not defined");
            findings.general(Rule::DefinitionReference, message);
        }
    };
    macro_rules! names {
        ($($field:ident: $($role:ident $is_needed:literal),*;)*) => {
            $(for (reference, definition) in &definitions.$field {
                $(named(format!("{reference:?}"), stringify!($role), definition.$role, $is_needed);)*
            })*
        };
    }
    names! {
        attributes: name true, description false;
        system_tree_nodes: name true, class_name true;
        location_groups: name true;
        locations: name true;
        regions: name true, canonical_name false, description false, source_file false;
        groups: name false;
        comms: name false;
        inter_comms: name false;
        rma_wins: name false;
        metric_members: name true, description false, unit false;
        parameters: name true;
        paradigms: name true;
    }
}

fn properties(definitions: &Definitions, findings: &mut Findings) {
    let mut check = |what: String, properties: &[Property]| {
        for (name, value) in properties {
            let text = match value {
                AttributeValue::String(text) => *text,
                _ => *name,
            };
            for string in [*name, text] {
                if !definitions.strings.contains_key(&string) {
                    let message = format!("a property of {what} has {string:?}, which is not defined");
                    findings.general(Rule::DefinitionReference, message);
                }
            }
        }
    };
    macro_rules! properties {
        ($($field:ident)*) => {
            $(for (reference, definition) in &definitions.$field {
                check(format!("{reference:?}"), &definition.properties);
            })*
        };
    }
    properties!(system_tree_nodes location_groups locations);
}

/// Readers use references as indices into tables.
fn dense(definitions: &Definitions, findings: &mut Findings) {
    let mut check = |what: &str, references: &mut dyn Iterator<Item = u32>| {
        if let Some((place, reference)) = (0..).zip(references).find(|(place, reference)| place != reference) {
            findings.general(Rule::Dense, format!("{what} {reference} is defined, but {place} is not"));
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
    let comms: BTreeSet<CommRef> = definitions.comms.keys().chain(definitions.inter_comms.keys()).copied().gather();
    check("communicator", &mut comms.iter().map(|reference| reference.get()));
    // Instances share these numbers, and the reader only counts them.
    if !definitions.others.contains_key("MetricInstance") {
        dense!("metric class" metric_classes);
    }
}

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
        if !definitions.location_groups.contains_key(&location.group) {
            wrong(format!("{reference:?} is in {:?}, which is not defined", location.group));
        }
    }
}

/// ViTE uses a location's index in the list as its id.
fn location_ids(definitions: &Definitions, findings: &mut Findings) {
    let mut lists = definitions.groups.values().filter(|group| group.group_type == GroupType::CommLocations);
    let wrong = lists.find_map(|list| (0_u64..).zip(&list.members).find(|(place, location)| place != *location));
    if let Some((place, location)) = wrong {
        findings.general(Rule::LocationId, format!("place {place} in the list has the location {location}"));
    }
}

/// Communicators have groups of indices into their paradigm's single list of locations. `has_all`: whether every rank
/// has a location; a communicator of a job of which a few processes were recorded may have none.
fn communicators(definitions: &Definitions, has_all: bool, findings: &mut Findings) {
    let mut wrong = |message: String| findings.general(Rule::Communicator, message);
    let mut lists: BTreeMap<Paradigm, &Group> = BTreeMap::new();
    for (reference, group) in
        definitions.groups.iter().filter(|(_, group)| group.group_type == GroupType::CommLocations)
    {
        let paradigm = group.paradigm;
        if lists.insert(paradigm, group).is_some() {
            wrong(format!("{reference:?} is another list of communicating locations of the paradigm {paradigm:?}"));
        }
        let mut seen = BTreeSet::new();
        for location in group.members.iter().copied().map(LocationRef::new) {
            if !definitions.locations.contains_key(&location) {
                wrong(format!("{reference:?} has the member {location:?}, not defined"));
            }
            if !seen.insert(location) {
                wrong(format!("{reference:?} has the member {location:?} twice"));
            }
        }
    }
    for (reference, comm) in &definitions.inter_comms {
        for group in [comm.group_a, comm.group_b] {
            if let Err(reason) = members(definitions, group, &lists, false) {
                wrong(format!("{reference:?}, an intercommunicator: {reason}"));
            }
        }
    }
    for (reference, comm) in &definitions.comms {
        if let Err(reason) = members(definitions, comm.group, &lists, !has_all) {
            wrong(format!("{reference:?}: {reason}"));
        }
        if comm.parent.is_defined() && comm.parent >= *reference {
            wrong(format!("{reference:?} has the parent {:?}, defined later", comm.parent));
        }
    }
}

fn members(
    definitions: &Definitions,
    group: GroupRef,
    lists: &BTreeMap<Paradigm, &Group>,
    may_be_empty: bool,
) -> Result<(), String> {
    let group = definitions.groups.get(&group).ok_or_else(|| format!("its group {group:?} is not defined"))?;
    match group.group_type {
        GroupType::CommSelf => return Ok(()),
        GroupType::CommGroup => {}
        other => return Err(format!("its group is of the type {other:?}")),
    }
    if group.members.is_empty() && !may_be_empty {
        return Err("it has no members".to_owned());
    }
    let list = lists.get(&group.paradigm).ok_or("there is no list of communicating locations of its paradigm")?;
    let mut seen = BTreeSet::new();
    for (rank, index) in group.members.iter().enumerate() {
        if *index >= list.members.len() as u64 {
            return Err(format!("rank {rank} is member {index} of a list of {}", list.members.len()));
        }
        let location = usize::try_from(*index)
            .ok()
            .and_then(|index| list.members.get(index))
            .map(|member| LocationRef::new(*member));
        let has_events =
            |location| definitions.locations.get(&location).is_some_and(|location| location.number_of_events > 0);
        // One location without events may stand for all ranks that were not recorded.
        if !seen.insert(index) && location.is_some_and(has_events) {
            return Err(format!("rank {rank} is on the location of another rank"));
        }
    }
    Ok(())
}

/// Files that belong to no location: no reader shows their events. Score-P leaves such files of locations that it did
/// not need, without events.
pub(crate) fn strays(trace: &Trace, findings: &mut Findings) {
    let Ok(entries) = std::fs::read_dir(trace.anchor.with_extension("")) else {
        return; // every location's files are missing then, and found so
    };
    let mut strays: Vec<(PathBuf, bool)> = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let [stem, extension] = [path.file_stem(), path.extension()].map(|part| part.and_then(|part| part.to_str()));
        if let (Some(id), Some("evt" | "def")) = (stem.and_then(|stem| stem.parse().ok()), extension)
            && !trace.definitions.locations.contains_key(&LocationRef::new(id))
        {
            let is_events = extension == Some("evt");
            strays.push((path, is_events));
        }
    }
    nccl_events::sort::sort(&mut strays);
    for (path, is_events) in strays {
        let shown = path.display();
        let is_empty = || path.metadata().is_ok_and(|file| file.len() == 0);
        if !is_events || is_empty() {
            findings.general(Rule::UnusedFile, format!("{shown} belongs to no location"));
            continue;
        }
        match check_event_file(&path, trace.archive.event_chunk_bytes()) {
            Ok(0) => findings.general(Rule::UnusedFile, format!("{shown} belongs to no location, and has no events")),
            Ok(events) => {
                findings.general(Rule::StrayFile, format!("{shown}, with {events} events, belongs to no location"));
            }
            Err(error) => findings.general(Rule::StrayFile, format!("a file of no location: {error}")),
        }
    }
}

/// Checks the files of a location; false if its events cannot be read, or lack local definitions.
pub(crate) fn check_files(
    trace: &Trace,
    location: LocationRef,
    definition: &Location,
    findings: &mut Findings,
    is_as_written: bool,
) -> bool {
    let place = (trace, location);
    let is_missing = |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let missing = |path: &Path| format!("{} is missing", path.display());
    let path = trace.archive.definition_file(location);
    let lacks_definitions = is_missing(&path);
    if lacks_definitions {
        findings.at(place, None, Rule::File, missing(&path));
    }
    let path = trace.archive.event_file(location);
    if is_missing(&path) {
        findings.at(place, None, Rule::File, missing(&path));
        return false;
    }
    match check_event_file(&path, trace.archive.event_chunk_bytes()) {
        Err(error) => {
            findings.at(place, None, Rule::File, error.to_string());
            false
        }
        Ok(events) => {
            let promised = definition.number_of_events;
            if events != promised {
                let message = format!("the definition promises {promised} events, but there are {events}");
                findings.at(place, None, Rule::EventCount, message);
            }
            is_as_written || !lacks_definitions
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::records::{Comm, Location};
    use otf2::{LocationGroupRef, LocationType};

    /// Two locations and a communicator. This project's writer refuses to write most of the faults tested here.
    fn found(listed: &[u64], members: &[u64], group_type: GroupType) -> Vec<String> {
        let mut definitions = Definitions::default();
        for id in 0..2 {
            let location = Location {
                name: StringRef::UNDEFINED,
                location_type: LocationType::CpuThread,
                number_of_events: 1,
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
        communicators(&definitions, true, &mut findings);
        findings.listed.iter().map(ToString::to_string).collect()
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
