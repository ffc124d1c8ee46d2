//! Typed values of attributes, properties and metrics.

use otf2_sys as sys;

use crate::refs::{
    AttributeRef, CommRef, GroupRef, LocationGroupRef, LocationRef, MetricRef, ParameterRef, RegionRef, RmaWinRef,
    StringRef,
};
use crate::vocabulary::AttributeType;

macro_rules! attribute_values {
    ($($variant:ident($rust:ty) = $field:ident { |$value:ident| $raw:expr, $from_raw:expr };)*) => {
        /// The value of an attribute or property.
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the names of the types")]
        pub enum AttributeValue {
            $($variant($rust),)*
            /// A value of a type that this crate does not interpret.
            Other { attribute_type: AttributeType, bits: u64 },
        }

        impl AttributeValue {
            /// The type of this value.
            #[inline(always)]
            pub const fn attribute_type(self) -> AttributeType {
                match self {
                    $(Self::$variant(_) => AttributeType::$variant,)*
                    Self::Other { attribute_type, .. } => attribute_type,
                }
            }

            // Most callers know the type at compile time, so that inlining removes the match.
            #[inline(always)]
            pub(crate) fn to_raw(self) -> sys::OTF2_AttributeValue {
                // Initialise all bytes: libotf2 may copy the whole union.
                let mut raw = sys::OTF2_AttributeValue { uint64: 0 };
                match self {
                    $(Self::$variant($value) => raw.$field = $raw,)*
                    Self::Other { bits, .. } => raw.uint64 = bits,
                }
                raw
            }

            pub(crate) fn from_raw(attribute_type: sys::OTF2_Type, raw: sys::OTF2_AttributeValue) -> Self {
                match AttributeType::from_raw(attribute_type) {
                    $(AttributeType::$variant => {
                        // SAFETY: every field of the union is a number, for which all bits are valid; libotf2 sets the
                        // field that corresponds to the type.
                        let value = unsafe { raw.$field };
                        Self::$variant($from_raw(value))
                    })*
                    attribute_type => {
                        // SAFETY: as above.
                        let bits = unsafe { raw.uint64 };
                        Self::Other { attribute_type, bits }
                    }
                }
            }
        }
    };
}

attribute_values! {
    U8(u8) = uint8 { |v| v, u8::from };
    U16(u16) = uint16 { |v| v, u16::from };
    U32(u32) = uint32 { |v| v, u32::from };
    U64(u64) = uint64 { |v| v, u64::from };
    I8(i8) = int8 { |v| v, i8::from };
    I16(i16) = int16 { |v| v, i16::from };
    I32(i32) = int32 { |v| v, i32::from };
    I64(i64) = int64 { |v| v, i64::from };
    F32(f32) = float32 { |v| v, f32::from };
    F64(f64) = float64 { |v| v, f64::from };
    String(StringRef) = stringRef { |v| v.get(), StringRef::new };
    Attribute(AttributeRef) = attributeRef { |v| v.get(), AttributeRef::new };
    Location(LocationRef) = locationRef { |v| v.get(), LocationRef::new };
    Region(RegionRef) = regionRef { |v| v.get(), RegionRef::new };
    Group(GroupRef) = groupRef { |v| v.get(), GroupRef::new };
    Metric(MetricRef) = metricRef { |v| v.get(), MetricRef::new };
    Comm(CommRef) = commRef { |v| v.get(), CommRef::new };
    Parameter(ParameterRef) = parameterRef { |v| v.get(), ParameterRef::new };
    RmaWin(RmaWinRef) = rmaWinRef { |v| v.get(), RmaWinRef::new };
    LocationGroup(LocationGroupRef) = locationGroupRef { |v| v.get(), LocationGroupRef::new };
}

/// One value of a metric event.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[expect(missing_docs, reason = "the names of the types")]
pub enum MetricValue {
    U64(u64),
    I64(i64),
    F64(f64),
}

impl MetricValue {
    pub(crate) fn raw_type(self) -> sys::OTF2_Type {
        match self {
            Self::U64(_) => AttributeType::U64,
            Self::I64(_) => AttributeType::I64,
            Self::F64(_) => AttributeType::F64,
        }
        .raw()
    }

    pub(crate) fn to_raw(self) -> sys::OTF2_MetricValue {
        match self {
            Self::U64(value) => sys::OTF2_MetricValue { unsigned_int: value },
            Self::I64(value) => sys::OTF2_MetricValue { signed_int: value },
            Self::F64(value) => sys::OTF2_MetricValue { floating_point: value },
        }
    }

    /// libotf2 widens narrow types to 64 bits, so three fields cover all types.
    pub(crate) fn from_raw(value_type: sys::OTF2_Type, raw: sys::OTF2_MetricValue) -> Self {
        match AttributeType::from_raw(value_type) {
            AttributeType::F32 | AttributeType::F64 => {
                // SAFETY: the union's fields are 64-bit numbers, for which all bits are valid.
                Self::F64(unsafe { raw.floating_point })
            }
            AttributeType::I8 | AttributeType::I16 | AttributeType::I32 | AttributeType::I64 => {
                // SAFETY: as above.
                Self::I64(unsafe { raw.signed_int })
            }
            _ => {
                // SAFETY: as above.
                Self::U64(unsafe { raw.unsigned_int })
            }
        }
    }
}
