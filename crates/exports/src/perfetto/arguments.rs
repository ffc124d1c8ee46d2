//! Writes the attributes of an event as arguments of its slice.

use nccl_events::ids::index;
use std::collections::BTreeSet;

use analysis::Trace;
use otf2::{AttributeRef, AttributeValue, Event};
use proto_messages::perfetto::{DebugAnnotation, Interned, InternedData};

use crate::value::Value;

/// The names of an archive's attributes, by number. Perfetto replaces dots by underscores, but joins nested names with
/// a dot: so `nccl.bytes` is written as `bytes` nested in `nccl`.
pub(super) struct AttributeNames<'a> {
    above: Vec<&'a str>,
    all: Vec<(Option<usize>, &'a str)>,
}

impl<'a> AttributeNames<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let mut found = Self { above: Vec::new(), all: Vec::new() };
        for attribute in trace.definitions.attributes.values() {
            let name = trace.definitions.string(attribute.name).unwrap_or("unnamed");
            let (above, own) = name.split_once('.').map_or((None, name), |(above, own)| (Some(above), own));
            let above = above.map(|above| {
                found.above.iter().position(|known| *known == above).unwrap_or_else(|| {
                    found.above.push(above);
                    found.above.len() - 1
                })
            });
            // OTF2 requires attribute numbers without gaps.
            found.all.push((above, own));
        }
        found
    }

    fn get(&self, attribute: AttributeRef) -> (Option<usize>, &'a str) {
        self.all.get(index(attribute.get())).copied().unwrap_or((None, "unnamed"))
    }
}

pub(super) struct Arguments<'a> {
    trace: &'a Trace,
    names: &'a AttributeNames<'a>,
    /// Interned names: of first words, then of attributes.
    named: BTreeSet<u64>,
    texts: BTreeSet<u64>,
}

impl<'a> Arguments<'a> {
    pub(super) const fn of(trace: &'a Trace, names: &'a AttributeNames<'a>) -> Self {
        Self { trace, names, named: BTreeSet::new(), texts: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, event: &Event, arguments: &mut Vec<DebugAnnotation>, interned: &mut InternedData) {
        let first_attribute = self.names.above.len() as u64 + 1;
        for (attribute, value) in &event.attributes {
            let (above, own) = self.names.get(*attribute);
            let name_iid = first_attribute + u64::from(attribute.get());
            self.name(name_iid, own, interned);
            let argument = self.argument(name_iid, *value, interned);
            let Some(above) = above else {
                arguments.push(argument);
                continue;
            };
            let above_iid = above as u64 + 1;
            match arguments.iter_mut().find(|it| it.name_iid == Some(above_iid)) {
                Some(above) => above.dict_entries.push(argument),
                None => {
                    self.name(above_iid, self.names.above[above], interned);
                    let dict_entries = vec![argument];
                    let name_iid = Some(above_iid);
                    arguments.push(DebugAnnotation { name_iid, dict_entries, ..DebugAnnotation::default() });
                }
            }
        }
    }

    fn name(&mut self, iid: u64, name: &str, interned: &mut InternedData) {
        if self.named.insert(iid) {
            interned.debug_annotation_names.push(named(iid, name.to_owned()));
        }
    }

    fn argument(&mut self, name_iid: u64, value: AttributeValue, interned: &mut InternedData) -> DebugAnnotation {
        let mut argument = DebugAnnotation { name_iid: Some(name_iid), ..DebugAnnotation::default() };
        match Value::of(self.trace, value) {
            Value::Unsigned(number) => argument.uint_value = Some(number),
            Value::Signed(number) => argument.int_value = Some(number),
            Value::Real(number) => argument.double_value = Some(number),
            Value::Text(text) => {
                let (space, reference) = match value {
                    AttributeValue::String(it) => (0, it.get().into()),
                    AttributeValue::Region(it) => (1, it.get().into()),
                    AttributeValue::Location(it) => (2, it.get()),
                    AttributeValue::Comm(it) => (3, it.get().into()),
                    // This project writes none of these types: each value gets a new number.
                    _ => (4, self.texts.len() as u64),
                };
                let iid = ((reference << 3) | space) + 1;
                if self.texts.insert(iid) {
                    interned.debug_annotation_string_values.push(named(iid, text.into_owned()));
                }
                argument.string_value_iid = Some(iid);
            }
        }
        argument
    }
}

pub(super) const fn named(iid: u64, name: String) -> Interned {
    Interned { iid: Some(iid), name: Some(name) }
}
