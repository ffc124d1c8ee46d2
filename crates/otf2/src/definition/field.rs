//! The fields of definitions: numbers, and references, which can be renumbered.

use otf2_sys as sys;

use crate::refs::*;
use crate::value::AttributeValue;

/// Maps a reference of a kind to its new number.
pub(super) type Renumber<'a> = dyn FnMut(ReferenceKind, u64) -> u64 + 'a;

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
                $(AttributeValue::$variant(it) => it.reference(),)*
                _ => None,
            }
        }

        /// Renumbers the reference in a value, if it has one.
        pub(super) fn renumber_value(value: &mut AttributeValue, number: &mut Renumber<'_>) {
            match value {
                $(AttributeValue::$variant(it) => it.renumber(number),)*
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
