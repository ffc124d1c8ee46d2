//! Converts definitions to records.

use crate::definition::Definition;
use crate::records::{ClockProperties, Definitions, LocationGroup, ParadigmRecord};

/// Appends to a list of a record in a map; `None` if the map lacks the record.
macro_rules! push {
    ($self:ident.$map:ident[$of:expr].$list:ident, $value:expr) => {
        $self.$map.get_mut(&$of).map(|of| of.$list.push($value))
    };
}

impl Definitions {
    pub(super) fn add(&mut self, definition: Definition) {
        let Some(definition) = self.add_record(definition) else {
            return;
        };
        let kind = definition.kind();
        let kept = match definition {
            Definition::ParadigmProperty { paradigm, property, value } => {
                push!(self.paradigms[paradigm.into()].properties, (property.into(), value))
            }
            Definition::SystemTreeNodeDomain { of, domain } => {
                push!(self.system_tree_nodes[of].domains, domain.into())
            }
            Definition::SystemTreeNodeProperty { of, name, value } => {
                push!(self.system_tree_nodes[of].properties, (name, value))
            }
            Definition::LocationGroupProperty { of, name, value } => {
                push!(self.location_groups[of].properties, (name, value))
            }
            Definition::LocationProperty { of, name, value } => {
                push!(self.locations[of].properties, (name, value))
            }
            other => self.add_whole(other),
        };
        // A property of an undefined record is counted as well.
        if kept.is_none() {
            *self.others.entry(kind).or_default() += 1;
        }
    }

    /// Stores a definition that does not depend on another. Returns `None` for all other definitions.
    fn add_whole(&mut self, definition: Definition) -> Option<()> {
        match definition {
            Definition::ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp } => {
                let clock = ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp };
                self.clock = Some(clock);
            }
            Definition::String { this, text } => {
                self.strings.insert(this, String::from_utf8_lossy(&text).into_owned());
            }
            Definition::LocationGroup { this, name, group_type, parent, creator } => {
                let (group_type, system_tree_parent) = (group_type.into(), parent);
                let group = LocationGroup { name, group_type, system_tree_parent, creator, properties: Vec::new() };
                self.location_groups.insert(this, group);
            }
            Definition::Paradigm { paradigm, name, class } => {
                let record = ParadigmRecord { name, class: class.into(), properties: Vec::new() };
                self.paradigms.insert(paradigm.into(), record);
            }
            _ => return None,
        }
        Some(())
    }
}
