//! Every kind of global definition in OTF2 3.0 to 3.2, as data with all fields. Fields are numbers, and references,
//! which can be renumbered. Reading and writing both use [`Definition`], so a kind's fields are declared only here.
//! Copying archives uses it unchanged, so that nothing is lost; [`crate::records`] interprets it.

use crate::vocabulary::{AttributeValue, GroupType, *};
use otf2_sys as sys;

/// Definitions whose fields are numbers and references, each of which is one argument of libotf2's functions; some end
/// in a value and its type. Users pass a macro that expands the list.
macro_rules! plain_definitions {
    ($make:ident) => {
        $make! {
            ClockProperties by OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback, OTF2_GlobalDefWriter_WriteClockProperties
                { timer_resolution: u64, global_offset: u64, trace_length: u64, realtime_timestamp: u64 }
            Paradigm by OTF2_GlobalDefReaderCallbacks_SetParadigmCallback, OTF2_GlobalDefWriter_WriteParadigm
                { paradigm: u8, name: StringRef, class: u8 }
            ParadigmProperty by OTF2_GlobalDefReaderCallbacks_SetParadigmPropertyCallback, OTF2_GlobalDefWriter_WriteParadigmProperty
                { paradigm: u8, property: u8 ; value }
            Attribute(this: AttributeRef) by OTF2_GlobalDefReaderCallbacks_SetAttributeCallback, OTF2_GlobalDefWriter_WriteAttribute
                { name: StringRef, description: StringRef, attribute_type: u8 }
            SystemTreeNode(this: SystemTreeNodeRef) by OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback, OTF2_GlobalDefWriter_WriteSystemTreeNode
                { name: StringRef, class_name: StringRef, parent: SystemTreeNodeRef }
            SystemTreeNodeProperty by OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodePropertyCallback, OTF2_GlobalDefWriter_WriteSystemTreeNodeProperty
                { of: SystemTreeNodeRef, name: StringRef ; value }
            SystemTreeNodeDomain by OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeDomainCallback, OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain
                { of: SystemTreeNodeRef, domain: u8 }
            LocationGroup(this: LocationGroupRef) by OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback, OTF2_GlobalDefWriter_WriteLocationGroup
                { name: StringRef, group_type: u8, parent: SystemTreeNodeRef, creator: LocationGroupRef }
            LocationGroupProperty by OTF2_GlobalDefReaderCallbacks_SetLocationGroupPropertyCallback, OTF2_GlobalDefWriter_WriteLocationGroupProperty
                { of: LocationGroupRef, name: StringRef ; value }
            Location(this: LocationRef) by OTF2_GlobalDefReaderCallbacks_SetLocationCallback, OTF2_GlobalDefWriter_WriteLocation
                { name: StringRef, location_type: u8, number_of_events: u64, group: LocationGroupRef }
            LocationProperty by OTF2_GlobalDefReaderCallbacks_SetLocationPropertyCallback, OTF2_GlobalDefWriter_WriteLocationProperty
                { of: LocationRef, name: StringRef ; value }
            Region(this: RegionRef) by OTF2_GlobalDefReaderCallbacks_SetRegionCallback, OTF2_GlobalDefWriter_WriteRegion
                { name: StringRef, canonical_name: StringRef, description: StringRef, role: u8, paradigm: u8,
                  flags: u32, source_file: StringRef, begin_line: u32, end_line: u32 }
            Callsite(this: CallsiteRef) by OTF2_GlobalDefReaderCallbacks_SetCallsiteCallback, OTF2_GlobalDefWriter_WriteCallsite
                { source_file: StringRef, line: u32, entered: RegionRef, left: RegionRef }
            Callpath(this: CallpathRef) by OTF2_GlobalDefReaderCallbacks_SetCallpathCallback, OTF2_GlobalDefWriter_WriteCallpath
                { parent: CallpathRef, region: RegionRef }
            CallpathParameter by OTF2_GlobalDefReaderCallbacks_SetCallpathParameterCallback, OTF2_GlobalDefWriter_WriteCallpathParameter
                { of: CallpathRef, parameter: ParameterRef ; value }
            MetricMember(this: MetricMemberRef) by OTF2_GlobalDefReaderCallbacks_SetMetricMemberCallback, OTF2_GlobalDefWriter_WriteMetricMember
                { name: StringRef, description: StringRef, metric_type: u8, mode: u8, value_type: u8,
                  base: u8, exponent: i64, unit: StringRef }
            MetricInstance(this: MetricRef) by OTF2_GlobalDefReaderCallbacks_SetMetricInstanceCallback, OTF2_GlobalDefWriter_WriteMetricInstance
                { class: MetricRef, recorder: LocationRef, scope_kind: u8, scope: u64 }
            MetricClassRecorder by OTF2_GlobalDefReaderCallbacks_SetMetricClassRecorderCallback, OTF2_GlobalDefWriter_WriteMetricClassRecorder
                { metric: MetricRef, recorder: LocationRef }
            Comm(this: CommRef) by OTF2_GlobalDefReaderCallbacks_SetCommCallback, OTF2_GlobalDefWriter_WriteComm
                { name: StringRef, group: GroupRef, parent: CommRef, flags: u32 }
            InterComm(this: CommRef) by OTF2_GlobalDefReaderCallbacks_SetInterCommCallback, OTF2_GlobalDefWriter_WriteInterComm
                { name: StringRef, group_a: GroupRef, group_b: GroupRef, common: CommRef, flags: u32 }
            Parameter(this: ParameterRef) by OTF2_GlobalDefReaderCallbacks_SetParameterCallback, OTF2_GlobalDefWriter_WriteParameter
                { name: StringRef, parameter_type: u8 }
            RmaWin(this: RmaWinRef) by OTF2_GlobalDefReaderCallbacks_SetRmaWinCallback, OTF2_GlobalDefWriter_WriteRmaWin
                { name: StringRef, comm: CommRef, flags: u32 }
            CartDimension(this: CartDimensionRef) by OTF2_GlobalDefReaderCallbacks_SetCartDimensionCallback, OTF2_GlobalDefWriter_WriteCartDimension
                { name: StringRef, size: u32, periodicity: u8 }
            SourceCodeLocation(this: SourceCodeLocationRef) by OTF2_GlobalDefReaderCallbacks_SetSourceCodeLocationCallback, OTF2_GlobalDefWriter_WriteSourceCodeLocation
                { file: StringRef, line: u32 }
            CallingContext(this: CallingContextRef) by OTF2_GlobalDefReaderCallbacks_SetCallingContextCallback, OTF2_GlobalDefWriter_WriteCallingContext
                { region: RegionRef, source_code_location: SourceCodeLocationRef, parent: CallingContextRef }
            CallingContextProperty by OTF2_GlobalDefReaderCallbacks_SetCallingContextPropertyCallback, OTF2_GlobalDefWriter_WriteCallingContextProperty
                { of: CallingContextRef, name: StringRef ; value }
            InterruptGenerator(this: InterruptGeneratorRef) by OTF2_GlobalDefReaderCallbacks_SetInterruptGeneratorCallback, OTF2_GlobalDefWriter_WriteInterruptGenerator
                { name: StringRef, mode: u8, base: u8, exponent: i64, period: u64 }
            IoRegularFile(this: IoFileRef) by OTF2_GlobalDefReaderCallbacks_SetIoRegularFileCallback, OTF2_GlobalDefWriter_WriteIoRegularFile
                { name: StringRef, scope: SystemTreeNodeRef }
            IoDirectory(this: IoFileRef) by OTF2_GlobalDefReaderCallbacks_SetIoDirectoryCallback, OTF2_GlobalDefWriter_WriteIoDirectory
                { name: StringRef, scope: SystemTreeNodeRef }
            IoFileProperty by OTF2_GlobalDefReaderCallbacks_SetIoFilePropertyCallback, OTF2_GlobalDefWriter_WriteIoFileProperty
                { of: IoFileRef, name: StringRef ; value }
            IoHandle(this: IoHandleRef) by OTF2_GlobalDefReaderCallbacks_SetIoHandleCallback, OTF2_GlobalDefWriter_WriteIoHandle
                { name: StringRef, file: IoFileRef, paradigm: IoParadigmRef, flags: u32, comm: CommRef,
                  parent: IoHandleRef }
            IoPreCreatedHandleState by OTF2_GlobalDefReaderCallbacks_SetIoPreCreatedHandleStateCallback, OTF2_GlobalDefWriter_WriteIoPreCreatedHandleState
                { of: IoHandleRef, mode: u8, status_flags: u32 }
        }
    };
}

pub(crate) use plain_definitions;

macro_rules! declare {
    ($($kind:ident $(($this:ident: $own:ty))? by $set:ident, $write:ident
        { $($field:ident: $type:ty),* $(; $value:ident)? })*) => {
        /// A global definition with all its fields. Enumerations are numbers, which keep values of a newer OTF2.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "kinds and fields have the names of OTF2's definitions")]
        pub enum Definition {
            $($kind { $($this: $own,)? $($field: $type,)* $($value: AttributeValue,)? },)*
            /// Bytes without NUL, in any encoding.
            String { this: StringRef, text: Vec<u8> },
            /// Members are references or indices, depending on `group_type`.
            Group { this: GroupRef, name: StringRef, group_type: u8, paradigm: u8, flags: u32, members: Vec<u64> },
            MetricClass { this: MetricRef, members: Vec<MetricMemberRef>, occurrence: u8, recorder_kind: u8 },
            CartTopology { this: CartTopologyRef, name: StringRef, comm: CommRef, dimensions: Vec<CartDimensionRef> },
            CartCoordinate { topology: CartTopologyRef, rank: u32, coordinates: Vec<u32> },
            IoParadigm {
                this: IoParadigmRef,
                identification: StringRef,
                name: StringRef,
                class: u8,
                flags: u32,
                properties: Vec<(u8, AttributeValue)>,
            },
        }

        impl Definition {
            /// OTF2's name of the kind.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => stringify!($kind),)*
                    Self::String { .. } => "String",
                    Self::Group { .. } => "Group",
                    Self::MetricClass { .. } => "MetricClass",
                    Self::CartTopology { .. } => "CartTopology",
                    Self::CartCoordinate { .. } => "CartCoordinate",
                    Self::IoParadigm { .. } => "IoParadigm",
                }
            }

            /// Kind and number of what is defined. `None` for definitions that only add to an earlier one.
            pub fn defines(&self) -> Option<(ReferenceKind, u64)> {
                match self {
                    $($(Self::$kind { $this, .. } => $this.reference(),)?)*
                    Self::String { this, .. } => this.reference(),
                    Self::Group { this, .. } => this.reference(),
                    Self::MetricClass { this, .. } => this.reference(),
                    Self::CartTopology { this, .. } => this.reference(),
                    Self::IoParadigm { this, .. } => this.reference(),
                    _ => None,
                }
            }

            /// Renumbers every reference in the definition, its own first.
            pub fn renumber(&mut self, mut number: impl FnMut(ReferenceKind, u64) -> u64) {
                let number: &mut Renumber<'_> = &mut number;
                match self {
                    $(Self::$kind { $($this,)? $($field,)* $($value,)? } => {
                        $($this.renumber(number);)?
                        $($field.renumber(number);)*
                        $(renumber_value($value, number);)?
                    })*
                    Self::String { this, .. } => this.renumber(number),
                    Self::Group { this, name, group_type, paradigm, members, .. } => {
                        this.renumber(number);
                        name.renumber(number);
                        if let Some(kind) = ReferenceKind::for_members(*group_type, *paradigm) {
                            members.iter_mut().for_each(|member| *member = number(kind, *member));
                        }
                    }
                    Self::MetricClass { this, members, .. } => {
                        this.renumber(number);
                        members.iter_mut().for_each(|member| member.renumber(number));
                    }
                    Self::CartTopology { this, name, comm, dimensions } => {
                        this.renumber(number);
                        name.renumber(number);
                        comm.renumber(number);
                        dimensions.iter_mut().for_each(|dimension| dimension.renumber(number));
                    }
                    Self::CartCoordinate { topology, .. } => topology.renumber(number),
                    Self::IoParadigm { this, identification, name, properties, .. } => {
                        this.renumber(number);
                        identification.renumber(number);
                        name.renumber(number);
                        properties.iter_mut().for_each(|(_, value)| renumber_value(value, number));
                    }
                }
                self.renumber_scope(number);
            }
        }
    };
}

plain_definitions!(declare);

impl Definition {
    /// Renumbers the scope of a metric, whose kind determines what it refers to.
    fn renumber_scope(&mut self, number: &mut Renumber<'_>) {
        if let Self::MetricInstance { scope_kind, scope, .. } = self
            && let Some(kind) = ReferenceKind::for_scope(*scope_kind)
        {
            *scope = number(kind, *scope);
        }
    }
}

impl ReferenceKind {
    fn for_members(group_type: u8, paradigm: u8) -> Option<Self> {
        Some(match GroupType::from_raw(group_type) {
            GroupType::Locations | GroupType::CommLocations => Self::Location,
            GroupType::Regions => Self::Region,
            GroupType::Metric => Self::Metric,
            GroupType::CommGroup | GroupType::CommSelf => Self::CommIndex(paradigm),
            GroupType::Unspecified | GroupType::Unknown(_) => return None,
        })
    }

    fn for_scope(kind: u8) -> Option<Self> {
        Some(match u32::from(kind) {
            otf2_sys::OTF2_SCOPE_LOCATION => Self::Location,
            otf2_sys::OTF2_SCOPE_LOCATION_GROUP => Self::LocationGroup,
            otf2_sys::OTF2_SCOPE_SYSTEM_TREE_NODE => Self::SystemTreeNode,
            otf2_sys::OTF2_SCOPE_GROUP => Self::Group,
            _ => return None,
        })
    }
}

/// Maps a reference of a kind to its new number.
pub(crate) type Renumber<'a> = dyn FnMut(ReferenceKind, u64) -> u64 + 'a;

/// A field of a definition that is one argument of libotf2's functions.
pub(crate) trait Field: Copy {
    type Raw;

    fn from_raw(raw: Self::Raw) -> Self;

    fn to_raw(self) -> Self::Raw;

    /// Kind and number of the referenced definition, if the field is a defined reference.
    fn reference(self) -> Option<(ReferenceKind, u64)> {
        None
    }

    /// Renumbers the field if it is a defined reference.
    fn renumber(&mut self, _: &mut Renumber<'_>) {}
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            type Raw = Self;

            fn from_raw(raw: Self) -> Self {
                raw
            }

            fn to_raw(self) -> Self {
                self
            }
        }
    )*};
}

numbers! { u8 u32 u64 i64 }

macro_rules! references {
    ($($(#[$doc:meta])* $kind:ident: $type:ident($raw:ty);)*) => {
        /// The kind of a referenced definition. Each kind is numbered separately.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ReferenceKind {
            $(
                #[doc = concat!("[`", stringify!($type), "`](crate::", stringify!($type), ").")]
                $(#[$doc])*
                $kind,
            )*
            /// A rank in a paradigm's list of communicating locations; the paradigm by OTF2's number.
            CommIndex(u8),
        }

        $(impl Field for $type {
            type Raw = $raw;

            fn from_raw(raw: $raw) -> Self {
                Self::new(raw)
            }

            fn to_raw(self) -> $raw {
                self.get()
            }

            fn reference(self) -> Option<(ReferenceKind, u64)> {
                Some((ReferenceKind::$kind, u64::from(self.get())))
            }

            fn renumber(&mut self, number: &mut Renumber<'_>) {
                if self.is_defined() {
                    let new = number(ReferenceKind::$kind, u64::from(self.get()));
                    // No definition has a number that does not fit.
                    *self = <$raw>::try_from(new).map_or(Self::UNDEFINED, Self::new);
                }
            }
        })*
    };
}

references! {
    String: StringRef(u32);
    Attribute: AttributeRef(u32);
    SystemTreeNode: SystemTreeNodeRef(u32);
    LocationGroup: LocationGroupRef(u32);
    Location: LocationRef(u64);
    Region: RegionRef(u32);
    Group: GroupRef(u32);
    /// This includes communicators between two groups.
    Comm: CommRef(u32);
    RmaWin: RmaWinRef(u32);
    MetricMember: MetricMemberRef(u32);
    Metric: MetricRef(u32);
    Parameter: ParameterRef(u32);
    SourceCodeLocation: SourceCodeLocationRef(u32);
    CallingContext: CallingContextRef(u32);
    InterruptGenerator: InterruptGeneratorRef(u32);
    Callpath: CallpathRef(u32);
    Callsite: CallsiteRef(u32);
    CartDimension: CartDimensionRef(u32);
    CartTopology: CartTopologyRef(u32);
    IoParadigm: IoParadigmRef(u8);
    IoFile: IoFileRef(u32);
    IoHandle: IoHandleRef(u32);
}

macro_rules! values {
    ($($variant:ident)*) => {
        /// The reference in a value; `None` if it is undefined or the value is a number.
        pub(crate) fn reference_of(value: AttributeValue) -> Option<(ReferenceKind, u64)> {
            match value {
                $(AttributeValue::$variant(reference) => reference.reference(),)*
                _ => None,
            }
        }

        /// Renumbers the reference in a value, if it has one.
        pub(crate) fn renumber_value(value: &mut AttributeValue, number: &mut Renumber<'_>) {
            match value {
                $(AttributeValue::$variant(reference) => reference.renumber(number),)*
                AttributeValue::Other { attribute_type, bits } => {
                    // The reference is the lower half of the bits; the upper half was never written.
                    let reference = *bits & u64::from(u32::MAX);
                    if reference == u64::from(u32::MAX) {
                        return;
                    }
                    *bits = number(
                        match u32::from(attribute_type.raw()) {
                            sys::OTF2_TYPE_SOURCE_CODE_LOCATION => ReferenceKind::SourceCodeLocation,
                            sys::OTF2_TYPE_CALLING_CONTEXT => ReferenceKind::CallingContext,
                            sys::OTF2_TYPE_INTERRUPT_GENERATOR => ReferenceKind::InterruptGenerator,
                            sys::OTF2_TYPE_IO_FILE => ReferenceKind::IoFile,
                            sys::OTF2_TYPE_IO_HANDLE => ReferenceKind::IoHandle,
                            _ => return,
                        },
                        reference,
                    );
                }
                _ => {}
            }
        }
    };
}

impl AttributeValue {
    /// Replaces the number of the reference in the value, if it has one.
    pub fn renumber(&mut self, mut number: impl FnMut(ReferenceKind, u64) -> u64) {
        renumber_value(self, &mut number);
    }
}

values! { String Attribute Location Region Group Metric Comm Parameter RmaWin LocationGroup }
