//! The definitions of the merged archive: the first archive's unchanged, followed by the others'.
//!
//! The first archive keeps its numbers, so its event files and local definitions can be used unchanged. Definitions of
//! the others get the next free numbers, unless the first has an equal one: texts, hosts, processes, paradigms, lists
//! of communicating locations.

pub(crate) mod ids;
pub(crate) mod numbers;
mod order;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context as _, Result, bail};
use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{GroupRef, GroupType, LocationGroupRef, LocationRef, StringRef, SystemTreeNodeRef};
use small_sort::Gather;

use numbers::{Numbers, Shared};

pub(crate) const TOO_MANY: &str = "there are more definitions than OTF2 can number";

/// What the merged archive contains when another one is appended, by new number.
struct Existing<'a> {
    nodes: BTreeSet<SystemTreeNodeRef>,
    groups: BTreeSet<LocationGroupRef>,
    new_paradigms: BTreeSet<u8>,
    prefix: &'a str,
}

#[derive(Debug, Default)]
pub(crate) struct Merged {
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

impl Merged {
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
        order::together(first, appended, &lists)
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

fn members(definition: &Definition) -> u64 {
    match definition {
        Definition::Group { members, .. } => members.len() as u64,
        _ => 0,
    }
}
