//! Checks definitions and passes them to libotf2. [`Defined`] tracks which references are defined, so that a wrong
//! definition is an error here, not a puzzle for a reader.

use std::collections::{BTreeMap, HashSet};

use crate::definition::{Definition, Field as _, ReferenceKind, plain_definitions, reference_of};
use crate::error::{Result, c_string, refused};
use crate::records::Property;
use crate::vocabulary::{AttributeType, AttributeValue, GroupRef, GroupType};
use otf2_sys as sys;

/// The definitions written so far. References of a kind are dense (0, 1, 2 and so on), except for locations.
#[derive(Default)]
pub(super) struct Defined {
    next: BTreeMap<ReferenceKind, u64>,
    locations: HashSet<u64>,
    groups: Vec<u8>,
    paradigms: HashSet<u8>,
    /// Number of members of a paradigm's group of communicating locations.
    comm_locations: BTreeMap<u8, u64>,
    clock: bool,
}

/// The description of the current operation, for messages.
pub(super) fn operation(definition: &Definition) -> String {
    match definition.defines() {
        Some((kind, number)) => format!("define {kind:?}Ref({number})"),
        None => format!("write a definition of the kind {}", definition.kind()),
    }
}

impl Defined {
    /// The number that the next definition of a kind gets.
    pub(super) fn next(&self, kind: ReferenceKind) -> u64 {
        self.next.get(&kind).copied().unwrap_or(0)
    }

    /// Accepts a definition and its properties, or refuses it and leaves the state unchanged.
    pub(super) fn define(&mut self, definition: &mut Definition, properties: &[Property]) -> Result<()> {
        let refuse = |reason| refused(operation(definition), reason);
        self.properties(properties).map_err(refuse)?;
        let refuse = |reason| refused(operation(definition), reason);
        self.check_kind(definition).map_err(refuse)?;
        let own = definition.defines();
        let (mut is_own, mut wrong) = (own.is_some(), None);
        definition.renumber(|kind, number| {
            // The definition's own reference comes first.
            if !std::mem::take(&mut is_own) && wrong.is_none() {
                wrong = self.known(kind, number).err();
            }
            number
        });
        let result = match wrong {
            Some(reason) => Err(reason),
            None => self.take(own, definition),
        };
        result.map_err(|reason| refused(operation(definition), reason))
    }

    /// Checks the values of a paradigm's properties.
    pub(super) fn values(&self, by: &str, values: impl Iterator<Item = AttributeValue>) -> Result<()> {
        for value in values {
            self.value(value).map_err(|reason| refused(by, reason))?;
        }
        Ok(())
    }

    fn known(&self, kind: ReferenceKind, number: u64) -> std::result::Result<(), String> {
        let is_known = match kind {
            ReferenceKind::Location => self.locations.contains(&number),
            ReferenceKind::CommIndex(paradigm) => {
                let limit = self.comm_locations.get(&paradigm).copied().unwrap_or(0);
                if number >= limit {
                    return Err(format!("member {number} is out of range: there are {limit} communicating locations"));
                }
                true
            }
            kind => number < self.next.get(&kind).copied().unwrap_or(0),
        };
        if is_known { Ok(()) } else { Err(format!("the {kind:?}Ref({number}) is not defined")) }
    }

    fn take(&mut self, own: Option<(ReferenceKind, u64)>, definition: &Definition) -> std::result::Result<(), String> {
        let Some((kind, number)) = own else {
            return match definition {
                Definition::ClockProperties { .. } if std::mem::replace(&mut self.clock, true) => {
                    Err("they are defined already".to_owned())
                }
                Definition::Paradigm { paradigm, .. } if !self.paradigms.insert(*paradigm) => {
                    Err("the paradigm is defined already".to_owned())
                }
                _ => Ok(()),
            };
        };
        if kind == ReferenceKind::Location {
            return match number {
                u64::MAX => Err("a location has a reference".to_owned()),
                _ if self.locations.insert(number) => Ok(()),
                _ => Err("it is defined already".to_owned()),
            };
        }
        let next = self.next.entry(kind).or_default();
        if number != *next || number == u64::from(u32::MAX) {
            return Err(format!("references are given in order, the next one is {next}"));
        }
        *next += 1;
        if let Definition::Group { group_type, paradigm, members, .. } = definition {
            self.groups.push(*group_type);
            if GroupType::from_raw(*group_type) == GroupType::CommLocations {
                let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
                self.comm_locations.insert(*paradigm, count);
            }
        }
        Ok(())
    }

    /// Accepts a location without checks.
    pub(super) fn note_location(&mut self, definition: &Definition) {
        if let Some((ReferenceKind::Location, number)) = definition.defines() {
            self.locations.insert(number);
        }
    }

    /// The locations in ascending order.
    pub(super) fn locations(&self) -> Vec<u64> {
        let mut locations: Vec<u64> = self.locations.iter().copied().collect();
        locations.sort_unstable();
        locations
    }

    /// Checks rules of a kind other than that references must be defined.
    fn check_kind(&self, definition: &Definition) -> std::result::Result<(), String> {
        let is_complete = match definition {
            Definition::Attribute { name, .. }
            | Definition::Region { name, .. }
            | Definition::Group { name, .. }
            | Definition::MetricMember { name, .. }
            | Definition::Parameter { name, .. }
            | Definition::Paradigm { name, .. } => name.is_defined(),
            Definition::SystemTreeNode { name, class_name, .. } => name.is_defined() && class_name.is_defined(),
            Definition::LocationGroup { name, parent, .. } => name.is_defined() && parent.is_defined(),
            Definition::Location { name, group, .. } => name.is_defined() && group.is_defined(),
            Definition::RmaWin { name, comm, .. } => name.is_defined() && comm.is_defined(),
            Definition::MetricClass { members, .. } => members.iter().all(|member| member.is_defined()),
            _ => true,
        };
        if !is_complete {
            return Err("a reference that it cannot be without is UNDEFINED".to_owned());
        }
        match definition {
            Definition::ClockProperties { timer_resolution: 0, .. } => {
                Err("the timer resolution is ticks per second, and not 0".to_owned())
            }
            Definition::ClockProperties { global_offset, trace_length, .. }
                if global_offset.checked_add(*trace_length).is_none() =>
            {
                Err("global offset + trace length is after the end of time".to_owned())
            }
            Definition::Comm { group, flags, .. } => self.check_comm(*group, *flags),
            Definition::InterComm { group_a, group_b, flags, .. } => {
                self.check_comm(*group_a, *flags).and_then(|()| self.check_comm(*group_b, *flags))
            }
            Definition::RmaWin { flags, .. } if *flags != sys::OTF2_RMA_WIN_FLAG_NONE => {
                Err("its flags promise events that are not written".to_owned())
            }
            Definition::MetricMember { value_type, .. } => match AttributeType::from_raw(*value_type) {
                AttributeType::U64 | AttributeType::I64 | AttributeType::F64 => Ok(()),
                other => Err(format!("{other:?} is not a type for metric values")),
            },
            Definition::MetricClass { members, .. } if members.is_empty() => {
                Err("a metric class has 1 to 255 members".to_owned())
            }
            Definition::Group { group_type, paradigm, members, .. } => {
                self.check_group(*group_type, *paradigm, members)
            }
            _ => Ok(()),
        }
    }

    fn check_comm(&self, group: GroupRef, flags: u32) -> std::result::Result<(), String> {
        let group = usize::try_from(group.get()).ok().and_then(|index| self.groups.get(index));
        match group.copied().map(GroupType::from_raw) {
            Some(GroupType::CommGroup | GroupType::CommSelf) if flags == sys::OTF2_COMM_FLAG_NONE => Ok(()),
            Some(GroupType::CommGroup | GroupType::CommSelf) => {
                Err("its flags promise events that are not written".to_owned())
            }
            Some(other) => Err(format!("its group has the type {other:?}")),
            None => Err("its group is not defined".to_owned()),
        }
    }

    fn check_group(&self, group_type: u8, paradigm: u8, members: &[u64]) -> std::result::Result<(), String> {
        let group_type = GroupType::from_raw(group_type);
        let has_locations = self.comm_locations.contains_key(&paradigm);
        match group_type {
            GroupType::Locations | GroupType::CommLocations => {
                if group_type == GroupType::CommLocations && has_locations {
                    return Err("its paradigm has a group of communicating locations already".to_owned());
                }
                let mut seen = HashSet::with_capacity(members.len());
                match members.iter().find(|member| !seen.insert(**member)) {
                    Some(member) => Err(format!("the location {member} is in it twice")),
                    None => Ok(()),
                }
            }
            GroupType::CommGroup if !has_locations => {
                Err("its paradigm has no group of communicating locations yet".to_owned())
            }
            GroupType::CommSelf if !members.is_empty() => Err("it has no members".to_owned()),
            GroupType::Unspecified | GroupType::Unknown(_) => Err("a group has a type of OTF2 3.0".to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks that properties have distinct names, and values that refer to defined things.
    fn properties(&self, properties: &[Property]) -> std::result::Result<(), String> {
        for (index, (name, value)) in properties.iter().enumerate() {
            self.value(AttributeValue::String(*name))?;
            if properties.iter().take(index).any(|(other, _)| other == name) {
                return Err(format!("the property named {name:?} occurs twice"));
            }
            self.value(*value)?;
        }
        Ok(())
    }

    fn value(&self, value: AttributeValue) -> std::result::Result<(), String> {
        match (value, reference_of(value)) {
            (AttributeValue::Other { attribute_type, .. }, _) => {
                Err(format!("a property cannot have the type {attribute_type:?}"))
            }
            (_, Some((kind, number))) => self.known(kind, number),
            (_, None) => Ok(()),
        }
    }
}

/// Writes a definition that [`super::definitions`] has checked. Returns libotf2's code.
pub(super) fn write(to: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Result<sys::OTF2_ErrorCode> {
    match (write_plain(to, definition), definition) {
        (Some(code), _) => Ok(code),
        (None, Definition::String { this, text }) => {
            let text = c_string(text, || operation(definition))?;
            // SAFETY: the writer is open; libotf2 copies the NUL-terminated string.
            Ok(unsafe { sys::OTF2_GlobalDefWriter_WriteString(to, this.get(), text.as_ptr()) })
        }
        (None, Definition::IoParadigm { .. }) => write_io_paradigm(to, definition),
        (None, _) => write_list(to, definition),
    }
}

macro_rules! write_plain {
    ($($kind:ident $(($this:ident: $own:ty))? by $set:ident, $write:ident
        { $($field:ident: $type:ty),* $(; $value:ident)? })*) => {
        /// Writes a definition without lists; `None` for other definitions.
        fn write_plain(writer: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Option<sys::OTF2_ErrorCode> {
            Some(match definition {
                $(Definition::$kind { $($this,)? $($field,)* $($value,)? } => {
                    // SAFETY: the writer is open and takes numbers; a value is passed with its type.
                    unsafe {
                        sys::$write(
                            writer,
                            $($this.to_raw(),)?
                            $($field.to_raw(),)*
                            $($value.attribute_type().raw(), $value.to_raw(),)?
                        )
                    }
                })*
                _ => return None,
            })
        }
    };
}

plain_definitions!(write_plain);

/// A list as two arguments of a call: length and pointer.
macro_rules! list {
    ($elements:expr) => {
        (u8::try_from($elements.len()).unwrap_or(u8::MAX), $elements.as_ptr())
    };
}

fn write_list(to: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Result<sys::OTF2_ErrorCode> {
    Ok(match definition {
        Definition::Group { this, name, group_type, paradigm, flags, members } => {
            let (this, name, kind) = (this.get(), name.get(), *group_type);
            let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
            let members = members.as_ptr();
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteGroup(to, this, name, kind, *paradigm, *flags, count, members) }
        }
        Definition::MetricClass { this, members, occurrence, recorder_kind } => {
            let members: Vec<u32> = members.iter().map(|member| member.get()).collect();
            let (count, members) = list!(members);
            let (this, kind) = (this.get(), *recorder_kind);
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteMetricClass(to, this, count, members, *occurrence, kind) }
        }
        Definition::CartTopology { this, name, comm, dimensions } => {
            let dimensions: Vec<u32> = dimensions.iter().map(|dimension| dimension.get()).collect();
            let (count, dimensions) = list!(dimensions);
            let (this, name, comm) = (this.get(), name.get(), comm.get());
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteCartTopology(to, this, name, comm, count, dimensions) }
        }
        Definition::CartCoordinate { topology, rank, coordinates } => {
            let (count, coordinates) = list!(coordinates);
            let topology = topology.get();
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteCartCoordinate(to, topology, *rank, count, coordinates) }
        }
        other => return Err(refused(operation(other), "it has no list")),
    })
}

fn write_io_paradigm(to: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Result<sys::OTF2_ErrorCode> {
    let Definition::IoParadigm { this, identification, name, class, flags, properties } = definition else {
        return Err(refused(operation(definition), "it has no list"));
    };
    let kinds: Vec<u8> = properties.iter().map(|(kind, _)| *kind).collect();
    let types: Vec<u8> = properties.iter().map(|(_, value)| value.attribute_type().raw()).collect();
    let values: Vec<_> = properties.iter().map(|(_, value)| value.to_raw()).collect();
    let (count, kinds) = list!(kinds);
    let (this, identification, name) = (this.get(), identification.get(), name.get());
    let (types, values) = (types.as_ptr(), values.as_ptr());
    // SAFETY: the writer is open and takes numbers; the arrays have `count` elements.
    let code = unsafe {
        sys::OTF2_GlobalDefWriter_WriteIoParadigm(
            to,
            this,
            identification,
            name,
            *class,
            *flags,
            count,
            kinds,
            types,
            values,
        )
    };
    Ok(code)
}
