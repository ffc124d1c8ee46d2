//! The definitions of an archive as plain data: what a writer is given and a reader returns.

use crate::{
    AttributeType, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef,
    LocationGroupType, LocationType, MetricBase, MetricMemberRef, MetricMode, MetricOccurrence,
    MetricType, Paradigm, ParadigmClass, ParadigmProperty, ParameterType, RecorderKind, RegionRole,
    StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

/// A named property of a definition.
pub type Property = (StringRef, AttributeValue);

/// The clock of all timestamps of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockProperties {
    /// Ticks per second: 1 000 000 000 when timestamps are nanoseconds.
    pub timer_resolution: u64,
    /// A timestamp not after the first event, in ticks.
    pub global_offset: u64,
    /// From there to a timestamp not before the last event, in ticks.
    pub trace_length: u64,
    /// The wall clock at `global_offset`, in nanoseconds since 1970, or `u64::MAX` when not known.
    pub realtime_timestamp: u64,
}

/// An attribute that events may carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, dotted by convention.
    pub name: StringRef,
    /// What it means.
    pub description: StringRef,
    /// The type of its values.
    pub attribute_type: AttributeType,
}

/// A node of the system tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemTreeNode {
    /// Its name, such as the host's.
    pub name: StringRef,
    /// What it is: "machine" for the root and "node" for a host, the words Scalasca looks for.
    pub class_name: StringRef,
    /// The node above, or UNDEFINED for the root.
    pub parent: SystemTreeNodeRef,
    /// What its members share.
    pub domains: Vec<SystemTreeDomain>,
    /// Properties, each name once.
    pub properties: Vec<Property>,
}

/// A group of locations.
#[derive(Clone, Debug, PartialEq)]
pub struct LocationGroup {
    /// Its name.
    pub name: StringRef,
    /// A process or an accelerator.
    pub group_type: LocationGroupType,
    /// Where it ran.
    pub system_tree_parent: SystemTreeNodeRef,
    /// The process that drives this accelerator, or UNDEFINED.
    pub creator: LocationGroupRef,
    /// Properties, each name once.
    pub properties: Vec<Property>,
}

/// A location.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// Its name.
    pub name: StringRef,
    /// What it stands for.
    pub location_type: LocationType,
    /// How many events its event file has.
    pub number_of_events: u64,
    /// The group it belongs to.
    pub group: LocationGroupRef,
    /// Properties, each name once.
    pub properties: Vec<Property>,
}

/// Flags of a region: none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionFlags(pub u32);

impl RegionFlags {
    /// No flag.
    pub const NONE: Self = Self(otf2_sys::OTF2_REGION_FLAG_NONE);
    /// Its instances differ and are to be told apart.
    pub const DYNAMIC: Self = Self(otf2_sys::OTF2_REGION_FLAG_DYNAMIC);
    /// A phase of the program.
    pub const PHASE: Self = Self(otf2_sys::OTF2_REGION_FLAG_PHASE);
}

/// A region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The name to show.
    pub name: StringRef,
    /// The name in the program, such as a mangled one.
    pub canonical_name: StringRef,
    /// What it is.
    pub description: StringRef,
    /// What it does.
    pub role: RegionRole,
    /// The programming model it belongs to.
    pub paradigm: Paradigm,
    /// Flags.
    pub flags: RegionFlags,
    /// The file it is in.
    pub source_file: StringRef,
    /// Its first line, 0 when not known.
    pub begin_line: u32,
    /// Its last line, 0 when not known.
    pub end_line: u32,
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

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: StringRef,
    /// What its members are.
    pub group_type: GroupType,
    /// The programming model it belongs to.
    pub paradigm: Paradigm,
    /// Flags; 0 is none.
    pub flags: u32,
    /// References or indices, by `group_type`.
    pub members: Vec<u64>,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// Its name.
    pub name: StringRef,
    /// Its members: a group of type [`GroupType::CommGroup`] or [`GroupType::CommSelf`].
    pub group: GroupRef,
    /// The communicator it was made from, or UNDEFINED.
    pub parent: CommRef,
    /// Flags; 0 is none. Writing accepts only 0: the flags promise events that this crate does not write.
    pub flags: u32,
}

/// A window of remote memory access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmaWin {
    /// Its name.
    pub name: StringRef,
    /// The communicator that shares it.
    pub comm: CommRef,
    /// Flags; 0 is none. Writing accepts only 0: the flags promise events that this crate does not write.
    pub flags: u32,
}

/// One value of a metric class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricMember {
    /// Its name.
    pub name: StringRef,
    /// What it means.
    pub description: StringRef,
    /// Where it comes from.
    pub metric_type: MetricType,
    /// What a value means, and for which time.
    pub mode: MetricMode,
    /// The type of its values: `U64`, `I64` or `F64`.
    pub value_type: AttributeType,
    /// Values are multiplied by `base` to the power of `exponent`.
    pub base: MetricBase,
    /// See `base`.
    pub exponent: i64,
    /// The unit, such as "B/s".
    pub unit: StringRef,
}

/// A metric class: the values of one metric event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricClass {
    /// Its values, in the order of the event.
    pub members: Vec<MetricMemberRef>,
    /// When it is sampled.
    pub occurrence: MetricOccurrence,
    /// Who records it.
    pub recorder_kind: RecorderKind,
}

/// A parameter of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: StringRef,
    /// The type of its values.
    pub parameter_type: ParameterType,
}

/// What an archive says about a paradigm it uses.
#[derive(Clone, Debug, PartialEq)]
pub struct ParadigmRecord {
    /// The name to show.
    pub name: StringRef,
    /// How it makes things happen at the same time.
    pub class: ParadigmClass,
    /// Properties, each once.
    pub properties: Vec<(ParadigmProperty, AttributeValue)>,
}
