//! The definitions of the merged archive: the first archive's unchanged, followed by the others'.
//!
//! The first archive keeps its numbers, so its event files and local definitions can be used unchanged. Definitions of
//! the others get the next free numbers, unless the first has an equal one: texts, hosts, processes, paradigms, lists
//! of communicating locations.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::inputs::Inputs;
use crate::scorep::ScoreP;
use anyhow::{Context as _, Result, bail};
use nccl_events::sort::Gather;
use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{Definitions, GroupRef, GroupType, LocationGroupRef, LocationRef, StringRef, SystemTreeNodeRef};

pub(crate) const TOO_MANY: &str = "there are more definitions than OTF2 can number";

/// What the merged archive contains when another one is appended, by new number.
struct Existing<'a> {
    nodes: BTreeSet<SystemTreeNodeRef>,
    groups: BTreeSet<LocationGroupRef>,
    new_paradigms: BTreeSet<u8>,
    prefix: &'a str,
}

#[derive(Debug, Default)]
pub(crate) struct MergedDefinitions {
    first: usize,
    definitions: Vec<Definition>,
    next: HashMap<ReferenceKind, u64>,
    texts: HashMap<Vec<u8>, StringRef>,
    strings: HashMap<StringRef, usize>,
    paradigms: BTreeSet<u8>,
    /// For each paradigm, the index and the reference of its list of communicating locations.
    lists: BTreeMap<u8, (usize, GroupRef)>,
    /// The numbers of definitions that are needed only once, by content.
    alike: HashMap<String, u64>,
    /// Names of properties that nodes and location groups already have.
    properties: BTreeSet<(ReferenceKind, u64, StringRef)>,
}

impl MergedDefinitions {
    pub(crate) fn new(first: Vec<Definition>) -> Self {
        let mut merged = Self::default();
        first.into_iter().for_each(|definition| merged.push(definition));
        merged.first = merged.definitions.len();
        merged
    }

    pub(crate) fn push(&mut self, definition: Definition) {
        if let Some((kind, number)) = definition.defines() {
            let next = self.next.entry(kind).or_default();
            *next = (*next).max(number.saturating_add(1));
            if is_once(&definition) {
                self.alike.entry(content(&definition, |_, number| number)).or_insert(number);
            }
        }
        match &definition {
            Definition::String { this, text } => {
                self.texts.entry(text.clone()).or_insert(*this);
                self.strings.insert(*this, self.definitions.len());
            }
            Definition::Paradigm { paradigm, .. } => {
                self.paradigms.insert(*paradigm);
            }
            Definition::Group { this, group_type, paradigm, .. } if is_list(*group_type) => {
                self.lists.entry(*paradigm).or_insert((self.definitions.len(), *this));
            }
            Definition::SystemTreeNodeProperty { of, name, .. } => {
                self.properties.insert((ReferenceKind::SystemTreeNode, of.get().into(), *name));
            }
            Definition::LocationGroupProperty { of, name, .. } => {
                self.properties.insert((ReferenceKind::LocationGroup, of.get().into(), *name));
            }
            _ => {}
        }
        self.definitions.push(definition);
    }

    pub(crate) fn all(&self) -> &[Definition] {
        &self.definitions
    }

    /// The highest number of references of a kind, except locations, whose ids are arbitrary.
    pub(crate) fn most_of_a_kind(&self) -> u64 {
        let kinds = self.next.iter().filter(|(kind, _)| **kind != ReferenceKind::Location);
        kinds.map(|(_, next)| *next).max().unwrap_or(0)
    }

    pub(crate) fn end(&self, kind: ReferenceKind) -> u64 {
        self.next.get(&kind).copied().unwrap_or(0)
    }

    /// The next free number of a kind. Numbers have 32 bits, except location ids, which are not assigned here.
    pub(crate) fn free(&mut self, kind: ReferenceKind) -> Result<u32> {
        let next = self.next.entry(kind).or_default();
        let number = u32::try_from(*next).ok().filter(|number| *number < u32::MAX);
        *next += 1;
        number.context(TOO_MANY)
    }

    /// The reference of a text, which is defined if it is new.
    pub(crate) fn string(&mut self, text: &[u8]) -> Result<StringRef> {
        if let Some(known) = self.texts.get(text) {
            return Ok(*known);
        }
        let this = StringRef::new(self.free(ReferenceKind::String)?);
        self.push(Definition::String { this, text: text.to_vec() });
        Ok(this)
    }

    pub(crate) fn append(&mut self, others: &[Definition], shared: &Shared) -> Result<Numbers> {
        // The index at which the other archives' members start in each list.
        let indices: BTreeMap<u8, u64> =
            self.lists.iter().map(|(paradigm, (place, _))| (*paradigm, members(&self.definitions[*place]))).gather();
        let paradigms = others.iter().filter_map(|definition| match definition {
            Definition::Paradigm { paradigm, .. } => Some(*paradigm),
            _ => None,
        });
        let existing = Existing {
            nodes: shared.nodes.values().copied().gather(),
            groups: shared.groups.values().copied().gather(),
            new_paradigms: paradigms.filter(|paradigm| !self.paradigms.contains(paradigm)).gather(),
            prefix: &shared.prefix,
        };
        let numbers = self.numbers(others, shared)?;
        let mut kept = Vec::new();
        for definition in others {
            let mut definition = definition.clone();
            definition.renumber(|kind, old| match kind {
                ReferenceKind::CommIndex(paradigm) => old + indices.get(&paradigm).copied().unwrap_or(0),
                kind => numbers.or_undefined(kind, old),
            });
            let of = match &definition {
                Definition::SystemTreeNodeDomain { of, .. } => Some((ReferenceKind::SystemTreeNode, of.get().into())),
                _ => definition.defines(),
            };
            if !of.is_some_and(|of| numbers.shared.contains(&of)) && self.is_new(&mut definition, &existing)? {
                kept.push(definition);
            }
        }
        kept.into_iter().for_each(|definition| self.push(definition));
        Ok(numbers)
    }

    fn numbers(&mut self, others: &[Definition], shared: &Shared) -> Result<Numbers> {
        let mut numbers = Numbers::default();
        for definition in others {
            if let Definition::String { this, text } = definition {
                numbers.set(ReferenceKind::String, this.get().into(), self.string(text)?.get().into());
            }
        }
        for definition in others {
            let Some((kind, old)) = definition.defines() else {
                continue;
            };
            let known = match definition {
                Definition::String { .. } => continue,
                Definition::SystemTreeNode { this, .. } => shared.nodes.get(this).map(|node| node.get().into()),
                Definition::LocationGroup { this, .. } => shared.groups.get(this).map(|group| group.get().into()),
                Definition::Location { this, .. } => {
                    let new = shared.locations.get(this).map(|location| location.get());
                    if shared.threads.contains(this) {
                        numbers.shared.extend(new.map(|new| (kind, new)));
                    }
                    new
                }
                Definition::Group { group_type, paradigm, name, .. } => {
                    if matches!(GroupType::from_raw(*group_type), GroupType::Unspecified | GroupType::Unknown(_)) {
                        bail!(
                            "a group named {name:?} has the type {group_type}, which OTF2 3.0 does not have: what its \
                             members are is not known"
                        );
                    }
                    self.lists.get(paradigm).filter(|_| is_list(*group_type)).map(|(_, group)| group.get().into())
                }
                _ => None,
            };
            let known = known.or_else(|| {
                let content =
                    is_once(definition).then(|| content(definition, |kind, old| numbers.or_undefined(kind, old)));
                let alike = self.alike.get(&content?).copied()?;
                numbers.shared.insert((kind, alike));
                Some(alike)
            });
            let new = match known {
                Some(known) => known,
                None => self.free(kind)?.into(),
            };
            if kind == ReferenceKind::IoParadigm && new >= u64::from(u8::MAX) {
                bail!("there are more than 254 interfaces to files");
            }
            numbers.set(kind, old, new);
        }
        Ok(numbers)
    }

    /// Whether a renumbered definition is to be added. Members of lists are added to the existing lists.
    fn is_new(&mut self, definition: &mut Definition, existing: &Existing<'_>) -> Result<bool> {
        Ok(match definition {
            Definition::ClockProperties { .. } | Definition::String { .. } => false,
            Definition::Paradigm { paradigm, .. } | Definition::ParadigmProperty { paradigm, .. } => {
                existing.new_paradigms.contains(paradigm)
            }
            Definition::SystemTreeNode { this, .. } => !existing.nodes.contains(this),
            Definition::SystemTreeNodeDomain { of, .. } => !existing.nodes.contains(of),
            Definition::SystemTreeNodeProperty { of, name, .. } => {
                // Every archive has the same property of the same host.
                self.properties.insert((ReferenceKind::SystemTreeNode, of.get().into(), *name))
            }
            Definition::LocationGroup { this, name, .. } => {
                let is_new = !existing.groups.contains(this);
                if is_new && !existing.prefix.is_empty() {
                    *name = self.prefixed(existing.prefix, *name)?;
                }
                is_new
            }
            Definition::LocationGroupProperty { of, name, .. } => {
                // Two sessions of one process have the same properties with different values.
                let (first, mut number) = (*name, 2);
                while !self.properties.insert((ReferenceKind::LocationGroup, of.get().into(), *name)) {
                    *name = self.string(&[self.text(first), format!(" #{number}").as_bytes()].concat())?;
                    number += 1;
                }
                true
            }
            Definition::Group { this, group_type, paradigm, members, .. } if is_list(*group_type) => {
                let list = self.lists.get(paradigm).filter(|(_, group)| group == this);
                match list.map(|(place, _)| &mut self.definitions[*place]) {
                    Some(Definition::Group { members: all, .. }) => {
                        all.append(members);
                        false
                    }
                    _ => true,
                }
            }
            _ => true,
        })
    }

    fn text(&self, string: StringRef) -> &[u8] {
        match self.strings.get(&string).map(|place| &self.definitions[*place]) {
            Some(Definition::String { text, .. }) => text,
            _ => &[],
        }
    }

    fn prefixed(&mut self, prefix: &str, name: StringRef) -> Result<StringRef> {
        self.string(&[prefix.as_bytes(), self.text(name)].concat())
    }

    pub(crate) fn set_number_of_events(&mut self, events: &BTreeMap<LocationRef, u64>) {
        for definition in &mut self.definitions {
            if let Definition::Location { this, number_of_events, .. } = definition
                && let Some(events) = events.get(this)
            {
                *number_of_events = *events;
            }
        }
    }

    /// Prefixes the rank to the names of the first archive's processes and GPUs, as in the others.
    pub(crate) fn prefix_first(&mut self, prefix: &str) -> Result<()> {
        for place in 0..self.definitions.len() {
            if let Definition::LocationGroup { name, .. } = self.definitions[place] {
                let new = self.prefixed(prefix, name)?;
                if let Definition::LocationGroup { name, .. } = &mut self.definitions[place] {
                    *name = new;
                }
            }
        }
        Ok(())
    }

    /// All definitions, each before its uses. The clock covers `span`, which began at `began_ns` since 1970.
    pub(crate) fn finish(self, span: (u64, u64), began_ns: Option<u64>) -> Vec<Definition> {
        let mut first = self.definitions;
        let appended = first.split_off(self.first);
        for definition in &mut first {
            if let Definition::ClockProperties { global_offset, trace_length, realtime_timestamp, .. } = definition {
                *global_offset = span.0;
                *trace_length = span.1.saturating_sub(span.0);
                *realtime_timestamp = began_ns.unwrap_or(*realtime_timestamp);
            }
        }
        let lists: Vec<usize> = self.lists.values().map(|(place, _)| *place).collect();
        together(first, appended, &lists)
    }
}

/// Whether definitions of this kind that differ only in their number mean the same.
fn is_once(definition: &Definition) -> bool {
    matches!(
        definition,
        Definition::SystemTreeNode { .. }
            | Definition::Region { .. }
            | Definition::Attribute { .. }
            | Definition::Parameter { .. }
            | Definition::MetricMember { .. }
    )
}

/// A definition as text, without its own number.
fn content(definition: &Definition, mut number: impl FnMut(ReferenceKind, u64) -> u64) -> String {
    let own = definition.defines();
    let mut is_first = true;
    let mut copy = definition.clone();
    copy.renumber(|kind, old| {
        if own == Some((kind, old)) && is_first {
            is_first = false;
            u64::MAX
        } else {
            number(kind, old)
        }
    });
    format!("{copy:?}")
}

fn is_list(group_type: u8) -> bool {
    GroupType::from_raw(group_type) == GroupType::CommLocations
}

fn members(definition: &Definition) -> u64 {
    match definition {
        Definition::Group { members, .. } => members.len() as u64,
        _ => 0,
    }
}

/// A bit that Score-P's numbers never reach.
const OURS: u64 = 0x8000_0000;
/// The rank in ids of locations that belong to no rank.
const NO_RANK: u32 = u32::MAX;

/// Whether a location of the merged archive is NCCL's.
pub(crate) fn is_ours(location: LocationRef) -> bool {
    location.get() >> 32 & OURS != 0
}

/// The prefix for names of processes and GPUs of one of several traces.
pub(crate) fn prefix(scorep: &ScoreP) -> String {
    format!("rank {}: ", scorep.processes[0].id.rank)
}

/// Group, node and rank of a Score-P process in the merged archive.
type MergedProcess = (LocationGroupRef, SystemTreeNodeRef, u32);

/// Finds hosts, processes and threads that Score-P's trace already has, and assigns location ids.
///
/// Score-P's location ids are `(number in the process << 32) | rank`. NCCL's get `((0x80000000 | number) << 32) |
/// rank`, an id that Score-P never assigns.
#[derive(Debug)]
pub(crate) struct Ids {
    locations: BTreeSet<LocationRef>,
    processes: Vec<Vec<MergedProcess>>,
    next: BTreeMap<u32, u64>,
    root: SystemTreeNodeRef,
}

fn roots(definitions: &Definitions) -> impl Iterator<Item = SystemTreeNodeRef> {
    definitions.system_tree_nodes.iter().filter(|(_, node)| !node.parent.is_defined()).map(|(root, _)| *root)
}

impl Ids {
    /// The first trace keeps its numbers.
    pub(crate) fn new(first: &ScoreP) -> Self {
        Self {
            locations: first.definitions.locations.keys().copied().gather(),
            processes: vec![
                first.processes.iter().map(|process| (process.group, process.node, process.id.rank)).collect(),
            ],
            next: BTreeMap::new(),
            root: roots(&first.definitions).next().unwrap_or(SystemTreeNodeRef::UNDEFINED),
        }
    }

    /// The new ids of another Score-P trace, with its rank in place of 0.
    pub(crate) fn share_scorep(&mut self, scorep: &ScoreP) -> Result<Shared> {
        let mut shared = Shared { prefix: prefix(scorep), ..Shared::default() };
        let rank = u64::from(scorep.processes[0].id.rank);
        for location in scorep.definitions.locations.keys() {
            let id = LocationRef::new(location.get() & !u64::from(u32::MAX) | rank);
            if is_ours(id) || !self.locations.insert(id) {
                bail!("two locations of Score-P's traces would have the id {}", id.get());
            }
            shared.locations.insert(*location, id);
        }
        shared.nodes = roots(&scorep.definitions).map(|node| (node, self.root)).gather();
        Ok(shared)
    }

    /// Adds the processes of the next trace, with its new numbers.
    pub(crate) fn add(&mut self, scorep: &ScoreP, numbers: &Numbers) -> Result<()> {
        let new = |kind, old: u32| {
            let number = numbers.get(kind, old.into()).and_then(|number| u32::try_from(number).ok());
            number.with_context(|| format!("{kind:?} {old} is not defined"))
        };
        let processes = scorep.processes.iter().map(|process| {
            let group = new(ReferenceKind::LocationGroup, process.group.get())?;
            let node = new(ReferenceKind::SystemTreeNode, process.node.get())?;
            Ok((LocationGroupRef::new(group), SystemTreeNodeRef::new(node), process.id.rank))
        });
        self.processes.push(processes.collect::<Result<_>>()?);
        Ok(())
    }

    fn next(&mut self, rank: u32) -> Result<LocationRef> {
        let next = self.next.entry(rank).or_default();
        let id = LocationRef::new((OURS | *next) << 32 | u64::from(rank));
        *next += 1;
        if *next >= OURS {
            bail!("rank {rank} has more locations than there are ids");
        }
        if self.locations.contains(&id) {
            bail!(
                "Score-P's trace has a location {}, where NCCL's are to be: Score-P did not write it, or it is merged \
                 already",
                id.get()
            );
        }
        Ok(id)
    }

    /// What an NCCL archive shares with Score-P's, and its new ids. `calls`: locations that become Score-P's.
    pub(crate) fn share_nccl(
        &mut self,
        inputs: &Inputs,
        number: usize,
        calls: &BTreeMap<LocationRef, LocationRef>,
    ) -> Result<Shared> {
        let definitions = &inputs.nccls[number].trace.definitions;
        let mut shared = Shared::default();
        let mut ranks: BTreeMap<LocationGroupRef, u32> = BTreeMap::new();
        for pair in inputs.pairs.iter().filter(|pair| pair.nccl.archive == number) {
            let (group, node, rank) = self.processes[pair.scorep.archive][pair.scorep.process];
            let ours = inputs.ours(pair).group;
            ranks.insert(ours, rank);
            shared.groups.insert(ours, group);
            if let Some(group) = definitions.location_groups.get(&ours) {
                // A host of NCCL's archive can be several hosts in Score-P's (containers): the first one represents it.
                shared.nodes.entry(group.system_tree_parent).or_insert(node);
            }
        }
        shared.nodes.extend(roots(definitions).map(|node| (node, self.root)));
        for location in definitions.locations.keys() {
            let id = match calls.get(location) {
                Some(thread) => {
                    shared.threads.insert(*location);
                    *thread
                }
                None => {
                    self.next(ranks.get(&inputs.nccls[number].process_of(*location)).copied().unwrap_or(NO_RANK))?
                }
            };
            shared.locations.insert(*location, id);
        }
        Ok(shared)
    }
}

/// Appends definitions to those of an archive, which keep their order, each kind after its own, so that each definition
/// precedes its uses. `lists` are the indices of definitions in the archive that refer to appended ones.
pub(crate) fn together(mut first: Vec<Definition>, appended: Vec<Definition>, lists: &[usize]) -> Vec<Definition> {
    // The end of each stage in the first archive, earlier stages included: appended definitions go there.
    let mut ends = [0; STAGES];
    for (place, definition) in first.iter().enumerate() {
        ends[stage(definition)] = place + 1;
    }
    let mut end = 0;
    for stage in &mut ends {
        end = end.max(*stage);
        *stage = end;
    }
    // A list that got members of other archives must follow their definitions.
    if lists.iter().any(|place| *place < ends[LOCATIONS]) {
        first.extend(appended);
        first.sort_by_key(stage);
        return first;
    }
    let mut appended = appended;
    appended.sort_by_key(stage);
    let mut appended = appended.into_iter().peekable();
    let mut all = Vec::with_capacity(first.len() + appended.len());
    for (place, definition) in first.into_iter().enumerate() {
        while let Some(definition) = appended.next_if(|definition| ends[stage(definition)] <= place) {
            all.push(definition);
        }
        all.push(definition);
    }
    all.extend(appended);
    all
}

/// Definitions of a stage refer only to earlier stages, and to earlier definitions of their own.
const STAGES: usize = 15;
const LOCATIONS: usize = 5;

fn stage(definition: &Definition) -> usize {
    match definition {
        Definition::ClockProperties { .. } => 0,
        Definition::String { .. } => 1,
        Definition::Paradigm { .. } | Definition::ParadigmProperty { .. } => 2,
        Definition::SystemTreeNode { .. }
        | Definition::SystemTreeNodeProperty { .. }
        | Definition::SystemTreeNodeDomain { .. } => 3,
        Definition::LocationGroup { .. } | Definition::LocationGroupProperty { .. } => 4,
        Definition::Location { .. } | Definition::LocationProperty { .. } => LOCATIONS,
        Definition::Attribute { .. } | Definition::Parameter { .. } | Definition::Region { .. } => 6,
        Definition::Group { .. } => 7,
        Definition::Comm { .. } | Definition::InterComm { .. } => 8,
        Definition::RmaWin { .. } => 9,
        Definition::MetricMember { .. } => 10,
        Definition::MetricClass { .. } | Definition::MetricInstance { .. } | Definition::MetricClassRecorder { .. } => {
            11
        }
        Definition::Callpath { .. }
        | Definition::CallpathParameter { .. }
        | Definition::Callsite { .. }
        | Definition::SourceCodeLocation { .. }
        | Definition::InterruptGenerator { .. }
        | Definition::CartDimension { .. }
        | Definition::IoParadigm { .. }
        | Definition::IoRegularFile { .. }
        | Definition::IoDirectory { .. } => 12,
        Definition::CallingContext { .. }
        | Definition::CallingContextProperty { .. }
        | Definition::CartTopology { .. }
        | Definition::IoFileProperty { .. }
        | Definition::IoHandle { .. } => 13,
        _ => STAGES - 1,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) nodes: BTreeMap<SystemTreeNodeRef, SystemTreeNodeRef>,
    pub(crate) groups: BTreeMap<LocationGroupRef, LocationGroupRef>,
    pub(crate) locations: BTreeMap<LocationRef, LocationRef>,
    /// Locations whose new id the merged archive already defines.
    pub(crate) threads: BTreeSet<LocationRef>,
    /// The prefix for names of new processes.
    pub(crate) prefix: String,
}

/// The numbers of an archive's definitions in the merged one.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    new: HashMap<(ReferenceKind, u64), u64>,
    /// One more than the highest old number.
    ends: HashMap<ReferenceKind, u64>,
    /// New numbers that the merged archive already defines.
    pub(crate) shared: HashSet<(ReferenceKind, u64)>,
}

impl Numbers {
    pub(crate) fn get(&self, kind: ReferenceKind, old: u64) -> Option<u64> {
        self.new.get(&(kind, old)).copied()
    }

    /// For [`otf2::verbatim::Definition::renumber`]: undefined references stay undefined.
    pub(crate) fn or_undefined(&self, kind: ReferenceKind, old: u64) -> u64 {
        self.get(kind, old).unwrap_or(u64::MAX)
    }

    pub(crate) fn location(&self, old: LocationRef) -> Result<LocationRef> {
        let new = self.get(ReferenceKind::Location, old.get());
        new.map(LocationRef::new).with_context(|| format!("location {} is not defined", old.get()))
    }

    /// The new number for each old one from 0; an undefined old number stays unchanged.
    pub(crate) fn all(&self, kind: ReferenceKind) -> Vec<u64> {
        let end = self.ends.get(&kind).copied().unwrap_or(0);
        (0..end).map(|old| self.get(kind, old).unwrap_or(old)).collect()
    }

    pub(crate) fn set(&mut self, kind: ReferenceKind, old: u64, new: u64) {
        self.new.insert((kind, old), new);
        let end = self.ends.entry(kind).or_default();
        *end = (*end).max(old + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::{CommRef, GroupRef, LocationGroupRef, LocationRef, StringRef};

    fn string(number: u32) -> Definition {
        Definition::String { this: StringRef::new(number), text: Vec::new() }
    }

    fn group(number: u32) -> Definition {
        let (this, name) = (GroupRef::new(number), StringRef::new(0));
        Definition::Group { this, name, group_type: 4, paradigm: 4, flags: 0, members: Vec::new() }
    }

    fn comm(number: u32) -> Definition {
        let (this, name, group) = (CommRef::new(number), StringRef::new(0), GroupRef::new(0));
        Definition::Comm { this, name, group, parent: CommRef::UNDEFINED, flags: 0 }
    }

    fn location(number: u64) -> Definition {
        let (this, name, group) = (LocationRef::new(number), StringRef::new(0), LocationGroupRef::new(0));
        Definition::Location { this, name, location_type: 1, number_of_events: 0, group }
    }

    #[test]
    fn what_is_appended_follows_its_kind() {
        let appended = || vec![comm(1), string(2), location(1), group(1)];
        let sorted = [string(0), string(1), string(2), location(0), location(1), group(0), group(1), comm(0), comm(1)];
        let first = vec![string(0), string(1), location(0), group(0), comm(0)];
        assert_eq!(together(first, appended(), &[3]), sorted);
        // The first archive's order is kept, whatever it is.
        let first = vec![comm(0), string(0), location(0), group(0), string(1)];
        let all = together(first, appended(), &[]);
        assert_eq!(all[..5], [comm(0), string(0), location(0), group(0), string(1)]);
        assert_eq!(all[5..], [string(2), location(1), group(1), comm(1)]);
        // But not if a list in it would refer to locations that come later.
        let first = vec![string(0), location(0), group(0), string(1), comm(0)];
        assert_eq!(together(first, appended(), &[2]), sorted);
    }
}
