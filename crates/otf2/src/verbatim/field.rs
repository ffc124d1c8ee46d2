//! The fields of definitions: numbers, and references that can be given other numbers.

use otf2_sys as sys;

use super::ReferenceKind;
use crate::{
    AttributeRef, AttributeType, AttributeValue, CallingContextRef, CallpathRef, CallsiteRef,
    CartDimensionRef, CartTopologyRef, CommRef, GroupRef, InterruptGeneratorRef, IoFileRef,
    IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef, MetricMemberRef, MetricRef,
    ParameterRef, RegionRef, RmaWinRef, SourceCodeLocationRef, StringRef, SystemTreeNodeRef,
};

/// Gives a reference of a kind another number.
pub(super) type Renumber<'a> = dyn FnMut(ReferenceKind, u64) -> u64 + 'a;

/// A field of a definition that is one argument of libotf2's functions.
pub(super) trait Field: Copy {
    /// The argument.
    type Raw;

    fn from_raw(raw: Self::Raw) -> Self;

    fn to_raw(self) -> Self::Raw;

    /// Changes it if it is a reference to something.
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
    ($($type:ident($raw:ty) is $kind:ident;)*) => {$(
        impl Field for $type {
            type Raw = $raw;

            fn from_raw(raw: $raw) -> Self {
                Self::new(raw)
            }

            fn to_raw(self) -> $raw {
                self.get()
            }

            fn renumber(&mut self, number: &mut Renumber<'_>) {
                if self.is_defined() {
                    let new = number(ReferenceKind::$kind, u64::from(self.get()));
                    // What does not fit is nothing that is defined.
                    *self = <$raw>::try_from(new).map_or(Self::UNDEFINED, Self::new);
                }
            }
        }
    )*};
}

references! {
    StringRef(u32) is String;
    AttributeRef(u32) is Attribute;
    SystemTreeNodeRef(u32) is SystemTreeNode;
    LocationGroupRef(u32) is LocationGroup;
    LocationRef(u64) is Location;
    RegionRef(u32) is Region;
    GroupRef(u32) is Group;
    CommRef(u32) is Comm;
    RmaWinRef(u32) is RmaWin;
    MetricMemberRef(u32) is MetricMember;
    MetricRef(u32) is Metric;
    ParameterRef(u32) is Parameter;
    SourceCodeLocationRef(u32) is SourceCodeLocation;
    CallingContextRef(u32) is CallingContext;
    InterruptGeneratorRef(u32) is InterruptGenerator;
    CallpathRef(u32) is Callpath;
    CallsiteRef(u32) is Callsite;
    CartDimensionRef(u32) is CartDimension;
    CartTopologyRef(u32) is CartTopology;
    IoParadigmRef(u8) is IoParadigm;
    IoFileRef(u32) is IoFile;
    IoHandleRef(u32) is IoHandle;
}

/// A value that refers to something refers to it by another number.
pub(super) fn renumber_value(value: &mut AttributeValue, number: &mut Renumber<'_>) {
    match value {
        AttributeValue::String(it) => it.renumber(number),
        AttributeValue::Attribute(it) => it.renumber(number),
        AttributeValue::Location(it) => it.renumber(number),
        AttributeValue::Region(it) => it.renumber(number),
        AttributeValue::Group(it) => it.renumber(number),
        AttributeValue::Metric(it) => it.renumber(number),
        AttributeValue::Comm(it) => it.renumber(number),
        AttributeValue::Parameter(it) => it.renumber(number),
        AttributeValue::RmaWin(it) => it.renumber(number),
        AttributeValue::LocationGroup(it) => it.renumber(number),
        AttributeValue::Other {
            attribute_type,
            bits,
        } => {
            let kind = other_kind(*attribute_type);
            // The reference is the lower half; what is above it was never written.
            let reference = *bits & u64::from(u32::MAX);
            if let Some(kind) = kind
                && reference != u64::from(u32::MAX)
            {
                *bits = number(kind, reference);
            }
        }
        _ => {}
    }
}

/// What values refer to whose types this crate has no other use for.
fn other_kind(attribute_type: AttributeType) -> Option<ReferenceKind> {
    Some(match u32::from(attribute_type.raw()) {
        sys::OTF2_TYPE_SOURCE_CODE_LOCATION => ReferenceKind::SourceCodeLocation,
        sys::OTF2_TYPE_CALLING_CONTEXT => ReferenceKind::CallingContext,
        sys::OTF2_TYPE_INTERRUPT_GENERATOR => ReferenceKind::InterruptGenerator,
        sys::OTF2_TYPE_IO_FILE => ReferenceKind::IoFile,
        sys::OTF2_TYPE_IO_HANDLE => ReferenceKind::IoHandle,
        _ => return None,
    })
}
