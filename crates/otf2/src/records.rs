//! The definitions of an archive as plain data, for writers and from readers.

use std::collections::BTreeMap;

use crate::definition::Definition;
use crate::refs::{
    AttributeRef, CommRef, GroupRef, LocationGroupRef, LocationRef, MetricMemberRef, MetricRef, ParameterRef,
    RegionRef, RmaWinRef, StringRef, SystemTreeNodeRef,
};
use crate::value::AttributeValue;
use crate::vocabulary::{
    AttributeType, GroupType, LocationGroupType, LocationType, MetricBase, MetricMode, MetricOccurrence, MetricType,
    Paradigm, ParadigmClass, ParadigmProperty, ParameterType, RecorderKind, RegionRole, SystemTreeDomain,
};

pub use crate::vocabulary::RegionFlags;

/// A named property of a definition.
pub type Property = (StringRef, AttributeValue);

/// The clock of all timestamps of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockProperties {
    /// Ticks per second: 1 000 000 000 if timestamps are nanoseconds.
    pub timer_resolution: u64,
    /// A timestamp not later than the first event, in ticks.
    pub global_offset: u64,
    /// Ticks from `global_offset` to a timestamp not earlier than the last event.
    pub trace_length: u64,
    /// The wall clock at `global_offset`, in nanoseconds since 1970; `u64::MAX` if unknown.
    pub realtime_timestamp: u64,
}

/// A group of locations.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields have the names of OTF2's definitions")]
pub struct LocationGroup {
    pub name: StringRef,
    pub group_type: LocationGroupType,
    pub system_tree_parent: SystemTreeNodeRef,
    /// The process that drives this accelerator, or UNDEFINED.
    pub creator: LocationGroupRef,
    pub properties: Vec<Property>,
}

/// A paradigm that an archive uses.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields have the names of OTF2's definitions")]
pub struct ParadigmRecord {
    pub name: StringRef,
    pub class: ParadigmClass,
    pub properties: Vec<(ParadigmProperty, AttributeValue)>,
}

/// Records with the fields of the [`Definition`] of the same name. Lists after `;` collect other definitions.
macro_rules! records {
    ($($(#[$of:meta])* $kind:ident($own:ty) in $map:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty,)*
        $(; $($(#[$list_doc:meta])* $list:ident: $list_type:ty,)*)?
    })*) => {
        $(
            $(#[$of])*
            #[expect(missing_docs, reason = "fields have the names of OTF2's definitions")]
            pub struct $kind {
                $($(#[$doc])* pub $field: $type,)*
                $($($(#[$list_doc])* pub $list: $list_type,)*)?
            }

            impl $kind {
                pub(crate) fn definition(&self, this: $own) -> Definition {
                    Definition::$kind { this, $($field: self.$field.clone().into(),)* }
                }
            }
        )*

        impl Definitions {
            /// Stores a definition that has a record of its own; returns any other definition.
            pub(crate) fn add_record(&mut self, definition: Definition) -> Option<Definition> {
                match definition {
                    $(Definition::$kind { this, $($field,)* } => {
                        let record = $kind { $($field: $field.into(),)* $($($list: Vec::new(),)*)? };
                        self.$map.insert(this, record);
                    })*
                    other => return Some(other),
                }
                None
            }
        }
    };
}

records! {
    /// An attribute that events may carry.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Attribute(AttributeRef) in attributes {
        name: StringRef,
        description: StringRef,
        attribute_type: AttributeType,
    }

    /// A location.
    #[derive(Clone, Debug, PartialEq)]
    Location(LocationRef) in locations {
        name: StringRef,
        location_type: LocationType,
        /// Number of events in the location's event file.
        number_of_events: u64,
        group: LocationGroupRef,
        ;
        properties: Vec<Property>,
    }

    /// A node of the system tree.
    #[derive(Clone, Debug, Default, PartialEq)]
    SystemTreeNode(SystemTreeNodeRef) in system_tree_nodes {
        name: StringRef,
        /// The kind of node: Scalasca looks for "machine" (the root) and "node" (a host).
        class_name: StringRef,
        /// The parent node; UNDEFINED for the root.
        parent: SystemTreeNodeRef,
        ;
        /// What the members of the node share.
        domains: Vec<SystemTreeDomain>,
        properties: Vec<Property>,
    }

    /// A region.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Region(RegionRef) in regions {
        name: StringRef,
        canonical_name: StringRef,
        description: StringRef,
        role: RegionRole,
        paradigm: Paradigm,
        flags: RegionFlags,
        source_file: StringRef,
        begin_line: u32,
        end_line: u32,
    }

    /// A group.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Group(GroupRef) in groups {
        name: StringRef,
        group_type: GroupType,
        paradigm: Paradigm,
        flags: u32,
        /// References or indices, depending on `group_type`.
        members: Vec<u64>,
    }

    /// A communicator.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Comm(CommRef) in comms {
        name: StringRef,
        /// The members: a group of type [`GroupType::CommGroup`] or [`GroupType::CommSelf`].
        group: GroupRef,
        /// The communicator from which this one was created, or UNDEFINED.
        parent: CommRef,
        /// Flags, 0 for none. Writing accepts only 0, because the flags promise events that this crate does not write.
        flags: u32,
    }

    /// An intercommunicator: members of either group communicate with those of the other one.
    #[derive(Clone, Debug, PartialEq, Eq)]
    InterComm(CommRef) in inter_comms {
        name: StringRef,
        /// Both groups are of a type that [`Comm::group`] may have.
        group_a: GroupRef,
        group_b: GroupRef,
        /// The communicator by which it was created, or UNDEFINED.
        common: CommRef,
        flags: u32,
    }

    /// A window of remote memory access.
    #[derive(Clone, Debug, PartialEq, Eq)]
    RmaWin(RmaWinRef) in rma_wins {
        name: StringRef,
        comm: CommRef,
        /// Flags, 0 for none. Writing accepts only 0, because the flags promise events that this crate does not write.
        flags: u32,
    }

    /// One value of a metric class.
    #[derive(Clone, Debug, PartialEq, Eq)]
    MetricMember(MetricMemberRef) in metric_members {
        name: StringRef,
        description: StringRef,
        metric_type: MetricType,
        mode: MetricMode,
        /// The type of the values: `U64`, `I64` or `F64`.
        value_type: AttributeType,
        /// Values are multiplied by `base` to the power of `exponent`.
        base: MetricBase,
        exponent: i64,
        unit: StringRef,
    }

    /// A metric class: the values of one metric event.
    #[derive(Clone, Debug, PartialEq, Eq)]
    MetricClass(MetricRef) in metric_classes {
        members: Vec<MetricMemberRef>,
        occurrence: MetricOccurrence,
        recorder_kind: RecorderKind,
    }

    /// A parameter of a region.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Parameter(ParameterRef) in parameters {
        name: StringRef,
        parameter_type: ParameterType,
    }
}

impl Default for Region {
    fn default() -> Self {
        Self {
            name: StringRef::UNDEFINED,
            canonical_name: StringRef::UNDEFINED,
            description: StringRef::UNDEFINED,
            role: RegionRole::Unspecified,
            paradigm: Paradigm::Unspecified,
            flags: RegionFlags::NONE,
            source_file: StringRef::UNDEFINED,
            begin_line: 0,
            end_line: 0,
        }
    }
}

impl LocationGroup {
    pub(crate) fn definition(&self, this: LocationGroupRef) -> Definition {
        Definition::LocationGroup {
            this,
            name: self.name,
            group_type: self.group_type.raw(),
            parent: self.system_tree_parent,
            creator: self.creator,
        }
    }
}

/// All global definitions.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "maps have the names of the kinds that are in them")]
pub struct Definitions {
    /// The clock; every archive has one.
    pub clock: Option<ClockProperties>,
    /// Strings; invalid UTF-8 is replaced.
    pub strings: BTreeMap<StringRef, String>,
    pub attributes: BTreeMap<AttributeRef, Attribute>,
    /// The system tree, with its properties and domains.
    pub system_tree_nodes: BTreeMap<SystemTreeNodeRef, SystemTreeNode>,
    /// Location groups, with their properties.
    pub location_groups: BTreeMap<LocationGroupRef, LocationGroup>,
    /// Locations, with their properties.
    pub locations: BTreeMap<LocationRef, Location>,
    pub regions: BTreeMap<RegionRef, Region>,
    pub groups: BTreeMap<GroupRef, Group>,
    pub comms: BTreeMap<CommRef, Comm>,
    /// They share their references with `comms`.
    pub inter_comms: BTreeMap<CommRef, InterComm>,
    pub rma_wins: BTreeMap<RmaWinRef, RmaWin>,
    pub metric_members: BTreeMap<MetricMemberRef, MetricMember>,
    pub metric_classes: BTreeMap<MetricRef, MetricClass>,
    pub parameters: BTreeMap<ParameterRef, Parameter>,
    /// Names, classes and properties of paradigms.
    pub paradigms: BTreeMap<Paradigm, ParadigmRecord>,
    /// Number of definitions of all kinds.
    pub records: u64,
    /// Numbers of definitions of all other kinds, by OTF2's name; "Unknown" counts those that this libotf2 lacks.
    pub others: BTreeMap<&'static str, u64>,
}

impl Definitions {
    /// Whether a communicator of either kind is defined.
    pub fn has_comm(&self, comm: CommRef) -> bool {
        self.comms.contains_key(&comm) || self.inter_comms.contains_key(&comm)
    }

    /// The text of a string; `None` if it is UNDEFINED or missing.
    pub fn string(&self, string: StringRef) -> Option<&str> {
        self.strings.get(&string).map(String::as_str)
    }
}
