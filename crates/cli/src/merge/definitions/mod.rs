//! The definitions of the merged archive: those of the first archive as they are, those of the others behind them.
//!
//! The first keeps its numbers, so its event files and local definitions can be used as they are. What others define
//! gets the next free numbers; what they have in common with the first (texts, hosts, processes, paradigms, lists of
//! communicating locations) becomes the first's.

pub(super) mod ids;
pub(super) mod numbers;
mod order;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Result, bail};
use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{GroupRef, GroupType, LocationGroupRef, LocationRef, StringRef, SystemTreeNodeRef};

use numbers::{Numbers, Shared};

/// What of another archive exists already, by its new numbers, and what does not.
struct Existing<'a> {
    nodes: BTreeSet<SystemTreeNodeRef>,
    groups: BTreeSet<LocationGroupRef>,
    new_paradigms: BTreeSet<u8>,
    prefix: &'a str,
}

/// One more than the highest number of definitions, of each kind.
#[derive(Debug)]
pub(super) struct Ends(HashMap<ReferenceKind, u64>);

impl Ends {
    pub(super) fn of(&self, kind: ReferenceKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }
}

/// The definitions of an archive that grows.
#[derive(Debug)]
pub(super) struct Merged {
    /// How many are the first archive's.
    first: usize,
    definitions: Vec<Definition>,
    next: HashMap<ReferenceKind, u64>,
    texts: HashMap<Vec<u8>, StringRef>,
    /// Which definition each of them is.
    strings: HashMap<StringRef, usize>,
    paradigms: BTreeSet<u8>,
    /// For each paradigm its list of communicating locations: which definition, and its reference.
    lists: BTreeMap<u8, (usize, GroupRef)>,
    /// Definitions of which one is enough, without their numbers.
    alike: HashMap<String, u64>,
    /// Names of properties that are taken: of nodes, and of groups of locations.
    properties: BTreeSet<(ReferenceKind, u64, StringRef)>,
}

impl Merged {
    /// Begins with all definitions of the first archive.
    pub(super) fn new(first: Vec<Definition>) -> Self {
        let mut merged = Self {
            first: 0,
            definitions: Vec::new(),
            next: HashMap::new(),
            texts: HashMap::new(),
            strings: HashMap::new(),
            paradigms: BTreeSet::new(),
            lists: BTreeMap::new(),
            alike: HashMap::new(),
            properties: BTreeSet::new(),
        };
        for definition in first {
            merged.push(definition);
        }
        merged.first = merged.definitions.len();
        merged
    }

    pub(super) fn push(&mut self, definition: Definition) {
        if let Some((kind, number)) = definition.defines() {
            let next = self.next.entry(kind).or_default();
            *next = (*next).max(number.saturating_add(1));
            if is_once(&definition) {
                let alike = without_number(&definition, |_, number| number);
                self.alike.entry(alike).or_insert(number);
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
                let place = self.definitions.len();
                self.lists.entry(*paradigm).or_insert((place, *this));
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

    fn free(&mut self, kind: ReferenceKind) -> u64 {
        let next = self.next.entry(kind).or_default();
        let number = *next;
        *next += 1;
        number
    }

    /// The next free number of definitions that have 32 bits for it.
    pub(super) fn free_u32(&mut self, kind: ReferenceKind) -> u32 {
        u32::try_from(self.free(kind)).unwrap_or(u32::MAX)
    }

    /// The reference of a text, defined if need be.
    pub(super) fn string(&mut self, text: &[u8]) -> StringRef {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.free(ReferenceKind::String);
        let this = StringRef::new(u32::try_from(number).unwrap_or(u32::MAX));
        self.push(Definition::String { this, text: text.to_vec() });
        this
    }

    /// Takes the definitions of another archive in.
    pub(super) fn append(&mut self, others: &[Definition], shared: &Shared) -> Result<Numbers> {
        let indices: BTreeMap<u8, u64> = self
            .lists
            .iter()
            .map(|(paradigm, (place, _))| (*paradigm, members(self.definitions.get(*place))))
            .collect();
        let paradigms: BTreeSet<u8> = others
            .iter()
            .filter_map(|definition| match definition {
                Definition::Paradigm { paradigm, .. } => Some(*paradigm),
                _ => None,
            })
            .filter(|paradigm| !self.paradigms.contains(paradigm))
            .collect();
        let existing = Existing {
            nodes: shared.nodes.values().copied().collect(),
            groups: shared.groups.values().copied().collect(),
            new_paradigms: paradigms,
            prefix: &shared.prefix,
        };
        let numbers = self.numbers(others, shared)?;
        let mut kept = Vec::new();
        for definition in others {
            let mut definition = definition.clone();
            definition.renumber(|kind, old| match kind {
                ReferenceKind::CommIndex(paradigm) => old + indices.get(&paradigm).copied().unwrap_or(0),
                kind => numbers.get(kind, old).unwrap_or(u64::MAX),
            });
            let is_shared = definition.defines().is_some_and(|it| numbers.shared.contains(&it));
            let is_of_shared = match &definition {
                Definition::SystemTreeNodeDomain { of, .. } => {
                    let node = (ReferenceKind::SystemTreeNode, of.get().into());
                    numbers.shared.contains(&node)
                }
                _ => false,
            };
            if is_shared || is_of_shared {
                continue;
            }
            if self.is_new(&mut definition, &existing) {
                kept.push(definition);
            }
        }
        for definition in kept {
            self.push(definition);
        }
        Ok(numbers)
    }

    /// The new numbers of everything that others define.
    fn numbers(&mut self, others: &[Definition], shared: &Shared) -> Result<Numbers> {
        let mut numbers = Numbers::default();
        for definition in others {
            if let Definition::String { this, text } = definition {
                let new = self.string(text);
                numbers.set(ReferenceKind::String, this.get().into(), new.get().into());
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
                    let list = self.lists.get(paradigm).filter(|_| is_list(*group_type));
                    list.map(|(_, group)| group.get().into())
                }
                _ => None,
            };
            let known = known.or_else(|| {
                let alike = is_once(definition)
                    .then(|| without_number(definition, |kind, old| numbers.get(kind, old).unwrap_or(u64::MAX)));
                let alike = self.alike.get(&alike?).copied()?;
                numbers.shared.insert((kind, alike));
                Some(alike)
            });
            let new = match known {
                Some(known) => known,
                None => self.free(kind),
            };
            if kind == ReferenceKind::IoParadigm && new >= u64::from(u8::MAX) {
                bail!("there are more than 254 interfaces to files");
            }
            numbers.set(kind, old, new);
        }
        Ok(numbers)
    }

    /// Whether a definition, with its new numbers, is one that is not there yet.
    fn is_new(&mut self, definition: &mut Definition, existing: &Existing<'_>) -> bool {
        match definition {
            Definition::ClockProperties { .. } | Definition::String { .. } => false,
            Definition::Paradigm { paradigm, .. } | Definition::ParadigmProperty { paradigm, .. } => {
                existing.new_paradigms.contains(paradigm)
            }
            Definition::SystemTreeNode { this, .. } => !existing.nodes.contains(this),
            Definition::SystemTreeNodeDomain { of, .. } => !existing.nodes.contains(of),
            Definition::SystemTreeNodeProperty { of, name, .. } => {
                // The same property of the same host is in every archive.
                self.properties.insert((ReferenceKind::SystemTreeNode, of.get().into(), *name))
            }
            Definition::LocationGroup { this, name, .. } => {
                let is_new = !existing.groups.contains(this);
                if is_new && !existing.prefix.is_empty() {
                    *name = self.prefixed(existing.prefix, *name);
                }
                is_new
            }
            Definition::LocationGroupProperty { of, name, .. } => {
                let of = u64::from(of.get());
                // Two sessions of one process say the same of different times.
                let mut number = 2;
                let first = *name;
                while !self.properties.insert((ReferenceKind::LocationGroup, of, *name)) {
                    *name = self.numbered(first, number);
                    number += 1;
                }
                true
            }
            Definition::Group { this, group_type, paradigm, members, .. } if is_list(*group_type) => {
                let list = self.lists.get(paradigm).filter(|(_, group)| group == this);
                let Some((place, _)) = list.copied() else {
                    return true;
                };
                if let Some(Definition::Group { members: all, .. }) = self.definitions.get_mut(place) {
                    all.append(members);
                }
                false
            }
            _ => true,
        }
    }

    fn text(&self, string: StringRef) -> Vec<u8> {
        let place = self.strings.get(&string);
        match place.and_then(|place| self.definitions.get(*place)) {
            Some(Definition::String { text, .. }) => text.clone(),
            _ => Vec::new(),
        }
    }

    fn prefixed(&mut self, prefix: &str, name: StringRef) -> StringRef {
        let text = [prefix.as_bytes(), &self.text(name)].concat();
        self.string(&text)
    }

    fn numbered(&mut self, name: StringRef, number: u32) -> StringRef {
        let text = [&self.text(name)[..], format!(" #{number}").as_bytes()].concat();
        self.string(&text)
    }

    /// One more than the highest number of definitions, of each kind.
    pub(super) fn ends(&self) -> Ends {
        Ends(self.next.clone())
    }

    /// Locations have got more events.
    pub(super) fn set_number_of_events(&mut self, events: &BTreeMap<LocationRef, u64>) {
        for definition in &mut self.definitions {
            if let Definition::Location { this, number_of_events, .. } = definition
                && let Some(events) = events.get(this)
            {
                *number_of_events = *events;
            }
        }
    }

    /// Puts the rank before the names of the first archive's processes and GPUs, as it is before those of the others.
    pub(super) fn prefix_first(&mut self, prefix: &str) {
        for place in 0..self.definitions.len() {
            if let Some(Definition::LocationGroup { name, .. }) = self.definitions.get(place) {
                let new = self.prefixed(prefix, *name);
                if let Some(Definition::LocationGroup { name, .. }) = self.definitions.get_mut(place) {
                    *name = new;
                }
            }
        }
    }

    /// All definitions in an order in which nothing is used before it is there, with the clock that covers `span` and
    /// the wall clock's time at its beginning.
    pub(super) fn finish(self, span: (u64, u64), began_ns: Option<u64>) -> Vec<Definition> {
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
        order::together(first, appended, &lists)
    }
}

/// Whether a definition that is alike but for its number means the same.
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

/// A definition in words, its own number left out.
fn without_number(definition: &Definition, mut number: impl FnMut(ReferenceKind, u64) -> u64) -> String {
    let own = definition.defines();
    let mut is_first = true;
    let mut copy = definition.clone();
    copy.renumber(|kind, old| match own == Some((kind, old)) && is_first {
        true => {
            is_first = false;
            u64::MAX
        }
        false => number(kind, old),
    });
    format!("{copy:?}")
}

fn is_list(group_type: u8) -> bool {
    GroupType::from_raw(group_type) == GroupType::CommLocations
}

fn members(definition: Option<&Definition>) -> u64 {
    match definition {
        Some(Definition::Group { members, .. }) => members.len() as u64,
        _ => 0,
    }
}
