//! From libotf2's definition callbacks to [`Definitions`].

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

use otf2_sys as sys;

use super::event_callbacks::array;
use super::reader::copied;
use super::{Definitions, other_definitions};
use crate::error::{self, Result, check};
use crate::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember,
    ParadigmRecord, Parameter, Region, RegionFlags, RmaWin, SystemTreeNode,
};
use crate::{
    AttributeRef, AttributeType, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef,
    LocationGroupType, LocationRef, LocationType, MetricBase, MetricMemberRef, MetricMode,
    MetricOccurrence, MetricRef, MetricType, Paradigm, ParadigmClass, ParadigmProperty,
    ParameterRef, ParameterType, RecorderKind, RegionRef, RegionRole, RmaWinRef, StringRef,
    SystemTreeDomain, SystemTreeNodeRef,
};

pub(super) const SUCCESS: sys::OTF2_CallbackCode = sys::OTF2_CALLBACK_SUCCESS;

/// A table of definition callbacks, for a reader to copy.
pub(crate) struct DefinitionCallbacks(NonNull<sys::OTF2_GlobalDefReaderCallbacks>);

impl Drop for DefinitionCallbacks {
    fn drop(&mut self) {
        // SAFETY: made by libotf2 and deleted only here; readers have a copy.
        unsafe { sys::OTF2_GlobalDefReaderCallbacks_Delete(self.0.as_ptr()) };
    }
}

impl DefinitionCallbacks {
    /// Those that fill [`Definitions`].
    pub(super) fn new() -> Result<Self> {
        Self::with(|table| {
            register(table)?;
            other_definitions::register(table)
        })
    }

    /// Those that `register` registers.
    pub(crate) fn with(
        register: impl FnOnce(*mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()>,
    ) -> Result<Self> {
        error::forget();
        // SAFETY: takes nothing, returns a table or NULL.
        let table = unsafe { sys::OTF2_GlobalDefReaderCallbacks_New() };
        let table = NonNull::new(table)
            .ok_or_else(|| error::null("make a table of definition callbacks".to_owned()))?;
        let callbacks = Self(table);
        register(table.as_ptr())?;
        Ok(callbacks)
    }

    pub(crate) fn as_ptr(&self) -> *const sys::OTF2_GlobalDefReaderCallbacks {
        self.0.as_ptr()
    }
}

/// Counts a definition that is not kept.
///
/// # Safety
///
/// The user data is the address of the [`Definitions`] that are being read.
pub(super) unsafe fn count(user_data: *mut c_void, kind: &'static str) {
    // SAFETY: the caller vouches for it, and nothing else uses it while libotf2 runs.
    let definitions = unsafe { &mut *user_data.cast::<Definitions>() };
    *definitions.others.entry(kind).or_default() += 1;
}

macro_rules! definition_callbacks {
    ($table:ident; $($set:ident($definitions:ident, $($name:ident: $argument:ty),*) $body:block)*) => {$({
        unsafe extern "C" fn callback(
            user_data: *mut c_void,
            $($name: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            // SAFETY: `definitions::read` registers the definitions it fills, and nothing else uses them
            // while libotf2 runs.
            let $definitions = unsafe { &mut *user_data.cast::<Definitions>() };
            $body
            SUCCESS
        }
        // SAFETY: the table is alive, and the callback has the type that the header gives it.
        let code = unsafe { sys::$set($table, Some(callback)) };
        check(code, || "register a definition callback".to_owned())?;
    })*};
}

fn property(
    name: u32,
    value_type: u8,
    value: sys::OTF2_AttributeValue,
) -> (StringRef, AttributeValue) {
    (
        StringRef::new(name),
        AttributeValue::from_raw(value_type, value),
    )
}

/// A property or domain of something that is not defined is counted, not lost.
fn orphan(definitions: &mut Definitions, kind: &'static str) {
    *definitions.others.entry(kind).or_default() += 1;
}

fn register(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    register_tree(table)?;
    definition_callbacks! { table;
        OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(
            definitions, resolution: u64, offset: u64, length: u64, realtime: u64
        ) {
            definitions.clock = Some(ClockProperties {
                timer_resolution: resolution,
                global_offset: offset,
                trace_length: length,
                realtime_timestamp: realtime,
            });
        }
        OTF2_GlobalDefReaderCallbacks_SetStringCallback(definitions, this: u32, text: *const c_char) {
            definitions.strings.insert(StringRef::new(this), copied(text));
        }
        OTF2_GlobalDefReaderCallbacks_SetAttributeCallback(
            definitions, this: u32, name: u32, description: u32, value_type: u8
        ) {
            let attribute = Attribute {
                name: StringRef::new(name),
                description: StringRef::new(description),
                attribute_type: AttributeType::from_raw(value_type),
            };
            definitions.attributes.insert(AttributeRef::new(this), attribute);
        }
        OTF2_GlobalDefReaderCallbacks_SetParadigmCallback(
            definitions, paradigm: u8, name: u32, class: u8
        ) {
            let record = ParadigmRecord {
                name: StringRef::new(name),
                class: ParadigmClass::from_raw(class),
                properties: Vec::new(),
            };
            definitions.paradigms.insert(Paradigm::from_raw(paradigm), record);
        }
        OTF2_GlobalDefReaderCallbacks_SetParadigmPropertyCallback(
            definitions, paradigm: u8, name: u8, value_type: u8, value: sys::OTF2_AttributeValue
        ) {
            let value = AttributeValue::from_raw(value_type, value);
            match definitions.paradigms.get_mut(&Paradigm::from_raw(paradigm)) {
                Some(record) => record.properties.push((ParadigmProperty::from_raw(name), value)),
                None => orphan(definitions, "ParadigmProperty"),
            }
        }
        OTF2_GlobalDefReaderCallbacks_SetRegionCallback(
            definitions, this: u32, name: u32, canonical: u32, description: u32, role: u8, paradigm: u8,
            flags: u32, file: u32, begin_line: u32, end_line: u32
        ) {
            let region = Region {
                name: StringRef::new(name),
                canonical_name: StringRef::new(canonical),
                description: StringRef::new(description),
                role: RegionRole::from_raw(role),
                paradigm: Paradigm::from_raw(paradigm),
                flags: RegionFlags(flags),
                source_file: StringRef::new(file),
                begin_line,
                end_line,
            };
            definitions.regions.insert(RegionRef::new(this), region);
        }
        OTF2_GlobalDefReaderCallbacks_SetGroupCallback(
            definitions, this: u32, name: u32, group_type: u8, paradigm: u8, flags: u32, count: u32,
            members: *const u64
        ) {
            let group = Group {
                name: StringRef::new(name),
                group_type: GroupType::from_raw(group_type),
                paradigm: Paradigm::from_raw(paradigm),
                flags,
                // SAFETY: libotf2 passes an array of `count` members.
                members: unsafe { array(members, usize::try_from(count).unwrap_or(0)) },
            };
            definitions.groups.insert(GroupRef::new(this), group);
        }
        OTF2_GlobalDefReaderCallbacks_SetCommCallback(
            definitions, this: u32, name: u32, group: u32, parent: u32, flags: u32
        ) {
            let comm = Comm {
                name: StringRef::new(name),
                group: GroupRef::new(group),
                parent: CommRef::new(parent),
                flags,
            };
            definitions.comms.insert(CommRef::new(this), comm);
        }
        OTF2_GlobalDefReaderCallbacks_SetRmaWinCallback(
            definitions, this: u32, name: u32, comm: u32, flags: u32
        ) {
            let win = RmaWin { name: StringRef::new(name), comm: CommRef::new(comm), flags };
            definitions.rma_wins.insert(RmaWinRef::new(this), win);
        }
        OTF2_GlobalDefReaderCallbacks_SetMetricMemberCallback(
            definitions, this: u32, name: u32, description: u32, metric_type: u8, mode: u8, value_type: u8,
            base: u8, exponent: i64, unit: u32
        ) {
            let member = MetricMember {
                name: StringRef::new(name),
                description: StringRef::new(description),
                metric_type: MetricType::from_raw(metric_type),
                mode: MetricMode::from_raw(mode),
                value_type: AttributeType::from_raw(value_type),
                base: MetricBase::from_raw(base),
                exponent,
                unit: StringRef::new(unit),
            };
            definitions.metric_members.insert(MetricMemberRef::new(this), member);
        }
        OTF2_GlobalDefReaderCallbacks_SetMetricClassCallback(
            definitions, this: u32, count: u8, members: *const u32, occurrence: u8, recorder: u8
        ) {
            // SAFETY: libotf2 passes an array of `count` members.
            let members = unsafe { array(members, usize::from(count)) };
            let class = MetricClass {
                members: members.into_iter().map(MetricMemberRef::new).collect(),
                occurrence: MetricOccurrence::from_raw(occurrence),
                recorder_kind: RecorderKind::from_raw(recorder),
            };
            definitions.metric_classes.insert(MetricRef::new(this), class);
        }
        OTF2_GlobalDefReaderCallbacks_SetParameterCallback(
            definitions, this: u32, name: u32, parameter_type: u8
        ) {
            let parameter = Parameter {
                name: StringRef::new(name),
                parameter_type: ParameterType::from_raw(parameter_type),
            };
            definitions.parameters.insert(ParameterRef::new(this), parameter);
        }
    }
    Ok(())
}

/// The system tree, location groups and locations.
fn register_tree(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    definition_callbacks! { table;
        OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback(
            definitions, this: u32, name: u32, class_name: u32, parent: u32
        ) {
            let node = SystemTreeNode {
                name: StringRef::new(name),
                class_name: StringRef::new(class_name),
                parent: SystemTreeNodeRef::new(parent),
                domains: Vec::new(),
                properties: Vec::new(),
            };
            definitions.system_tree_nodes.insert(SystemTreeNodeRef::new(this), node);
        }
        OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodePropertyCallback(
            definitions, this: u32, name: u32, value_type: u8, value: sys::OTF2_AttributeValue
        ) {
            match definitions.system_tree_nodes.get_mut(&SystemTreeNodeRef::new(this)) {
                Some(node) => node.properties.push(property(name, value_type, value)),
                None => orphan(definitions, "SystemTreeNodeProperty"),
            }
        }
        OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeDomainCallback(definitions, this: u32, domain: u8) {
            match definitions.system_tree_nodes.get_mut(&SystemTreeNodeRef::new(this)) {
                Some(node) => node.domains.push(SystemTreeDomain::from_raw(domain)),
                None => orphan(definitions, "SystemTreeNodeDomain"),
            }
        }
        OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback(
            definitions, this: u32, name: u32, group_type: u8, parent: u32, creator: u32
        ) {
            let group = LocationGroup {
                name: StringRef::new(name),
                group_type: LocationGroupType::from_raw(group_type),
                system_tree_parent: SystemTreeNodeRef::new(parent),
                creator: LocationGroupRef::new(creator),
                properties: Vec::new(),
            };
            definitions.location_groups.insert(LocationGroupRef::new(this), group);
        }
        OTF2_GlobalDefReaderCallbacks_SetLocationGroupPropertyCallback(
            definitions, this: u32, name: u32, value_type: u8, value: sys::OTF2_AttributeValue
        ) {
            match definitions.location_groups.get_mut(&LocationGroupRef::new(this)) {
                Some(group) => group.properties.push(property(name, value_type, value)),
                None => orphan(definitions, "LocationGroupProperty"),
            }
        }
        OTF2_GlobalDefReaderCallbacks_SetLocationCallback(
            definitions, this: u64, name: u32, location_type: u8, events: u64, group: u32
        ) {
            let location = Location {
                name: StringRef::new(name),
                location_type: LocationType::from_raw(location_type),
                number_of_events: events,
                group: LocationGroupRef::new(group),
                properties: Vec::new(),
            };
            definitions.locations.insert(LocationRef::new(this), location);
        }
        OTF2_GlobalDefReaderCallbacks_SetLocationPropertyCallback(
            definitions, this: u64, name: u32, value_type: u8, value: sys::OTF2_AttributeValue
        ) {
            match definitions.locations.get_mut(&LocationRef::new(this)) {
                Some(location) => location.properties.push(property(name, value_type, value)),
                None => orphan(definitions, "LocationProperty"),
            }
        }
    }
    Ok(())
}
