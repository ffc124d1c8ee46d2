//! Element-wise arithmetic of the collectives, on bytes as they lie in memory.

use half::{bf16, f16};

/// The operators of the device code, in the order of their codes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Op {
    Sum,
    Prod,
    MinMax,
    PreMulSum,
    SumPostDiv,
}

impl Op {
    pub(crate) const ALL: [Op; 5] = [Op::Sum, Op::Prod, Op::MinMax, Op::PreMulSum, Op::SumPostDiv];
}

/// A number as it lies in memory.
trait Element: Copy {
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    /// `arg` says, of minimum and maximum, which.
    fn combined(self, other: Self, op: Op, arg: u64) -> Self;
    /// `factor` has the bits of an element.
    fn scaled(self, factor: u64) -> Self;
    fn divided(self, _divisor: i128) -> Self {
        self
    }
}

macro_rules! in_memory {
    ($t:ty) => {
        fn load(bytes: &[u8]) -> $t {
            let mut own = [0; size_of::<$t>()];
            own.copy_from_slice(bytes);
            <$t>::from_le_bytes(own)
        }
        fn store(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }
    };
}

/// Minimum and maximum are one operator: the minimum of what results from flipping the bits of a mask.
macro_rules! integers {
    ($($t:ty, $unsigned:ty;)*) => {
        $(impl Element for $t {
            in_memory!($t);
            fn combined(self, other: $t, op: Op, arg: u64) -> $t {
                let key = |value: $t| value as $unsigned ^ arg as $unsigned;
                match op {
                    Op::Prod => self.wrapping_mul(other),
                    Op::MinMax if key(self) < key(other) => self,
                    Op::MinMax => other,
                    Op::Sum | Op::PreMulSum | Op::SumPostDiv => self.wrapping_add(other),
                }
            }
            fn scaled(self, factor: u64) -> $t {
                self.wrapping_mul(factor as $t)
            }
            fn divided(self, divisor: i128) -> $t {
                (i128::from(self) / divisor) as $t
            }
        })*
    };
}
integers! { i8, u8; u8, u8; i32, u32; u32, u32; i64, u64; u64, u64; }

macro_rules! floats {
    ($($t:ty, $bits:ty;)*) => {
        $(impl Element for $t {
            in_memory!($t);
            fn combined(self, other: $t, op: Op, arg: u64) -> $t {
                match op {
                    Op::Prod => self * other,
                    Op::MinMax if arg & 1 == 0 => self.min(other),
                    Op::MinMax => self.max(other),
                    Op::Sum | Op::PreMulSum | Op::SumPostDiv => self + other,
                }
            }
            fn scaled(self, factor: u64) -> $t {
                self * <$t>::from_bits(factor as $bits)
            }
        })*
    };
}
floats! { f32, u32; f64, u64; }

/// The narrow types are computed as f32 and rounded.
macro_rules! narrow {
    ($($t:ty, $bits:ty;)*) => {
        $(impl Element for $t {
            in_memory!($t);
            fn combined(self, other: $t, op: Op, arg: u64) -> $t {
                <$t>::from_f32(self.to_f32().combined(other.to_f32(), op, arg))
            }
            fn scaled(self, factor: u64) -> $t {
                <$t>::from_f32(self.to_f32() * <$t>::from_bits(factor as $bits).to_f32())
            }
        })*
    };
}
narrow! { f16, u16; bf16, u16; F8<3, 7>, u8; F8<2, 15>, u8; }

/// Eight bits, of which so many are the mantissa, with this bias of the exponent.
#[derive(Clone, Copy)]
struct F8<const MANTISSA: u32, const BIAS: i32>(u8);

impl<const MANTISSA: u32, const BIAS: i32> F8<MANTISSA, BIAS> {
    fn from_bits(bits: u8) -> Self {
        F8(bits)
    }

    fn from_le_bytes([bits]: [u8; 1]) -> Self {
        F8(bits)
    }

    fn to_le_bytes(self) -> [u8; 1] {
        [self.0]
    }

    fn to_f32(self) -> f32 {
        let exponent = i32::from((self.0 & 0x7f) >> MANTISSA);
        let fraction = f32::from(self.0 & ((1 << MANTISSA) - 1)) / (1_u32 << MANTISSA) as f32;
        let magnitude = if exponent == 0 {
            fraction * 2_f32.powi(1 - BIAS)
        } else {
            (1.0 + fraction) * 2_f32.powi(exponent - BIAS)
        };
        if self.0 & 0x80 != 0 { -magnitude } else { magnitude }
    }

    /// The nearest value there is: slow, but exact enough for a test rig.
    fn from_f32(f: f32) -> Self {
        let largest = if MANTISSA == 3 { 0x7e } else { 0x7b };
        let distance = |bits: u8| (F8::<MANTISSA, BIAS>(bits).to_f32() - f.abs()).abs();
        let nearest = (0..=largest).min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        F8(nearest.unwrap_or(0) | if f.is_sign_negative() { 0x80 } else { 0 })
    }
}

/// The data types, in the order of their codes (`ncclDataType_t`), and what is done with elements of each.
macro_rules! types {
    ($($name:ident: $t:ty),*) => {
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub(crate) enum Type { $($name),* }

        impl Type {
            pub(crate) const ALL: [Type; 12] = [$(Type::$name),*];

            /// Bytes of an element.
            pub(crate) fn size(self) -> usize {
                match self { $(Type::$name => size_of::<$t>()),* }
            }
        }

        /// `data[i] = data[i] (op) other[i]`
        pub(crate) fn combine(ty: Type, op: Op, arg: u64, data: &mut [u8], other: &[u8]) {
            match ty { $(Type::$name => {
                let size = size_of::<$t>();
                for (own, with) in data.chunks_exact_mut(size).zip(other.chunks_exact(size)) {
                    <$t>::load(own).combined(<$t>::load(with), op, arg).store(own);
                }
            })* }
        }

        fn map(ty: Type, data: &mut [u8], change: Change) {
            match ty { $(Type::$name => {
                for own in data.chunks_exact_mut(size_of::<$t>()) {
                    let value = <$t>::load(own);
                    match change {
                        Change::Scale(factor) => value.scaled(factor),
                        Change::Divide(divisor) => value.divided(divisor),
                    }.store(own);
                }
            })* }
        }
    };
}
types! {
    I8: i8, U8: u8, I32: i32, U32: u32, I64: i64, U64: u64, F16: f16, F32: f32, F64: f64, Bf16: bf16,
    F8e4m3: F8<3, 7>, F8e5m2: F8<2, 15>
}

#[derive(Clone, Copy)]
enum Change {
    Scale(u64),
    Divide(i128),
}

/// The scaling that some operators apply to a rank's own input.
pub(crate) fn pre_op(ty: Type, op: Op, arg: u64, data: &mut [u8]) {
    if op == Op::PreMulSum {
        map(ty, data, Change::Scale(arg));
    }
}

/// The division that integer averages end with: `arg` is twice the divisor, plus one for signed types.
pub(crate) fn post_op(ty: Type, op: Op, arg: u64, data: &mut [u8]) {
    if op == Op::SumPostDiv && arg > 1 {
        map(ty, data, Change::Divide(i128::from(arg >> 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_maximum_and_average() {
        let bytes = |v: [i32; 2]| v.map(i32::to_le_bytes).concat();
        let combined = |arg| {
            let mut data = bytes([-5, 7]);
            combine(Type::I32, Op::MinMax, arg, &mut data, &bytes([3, -9]));
            data
        };
        assert_eq!(combined(0x8000_0000), bytes([-5, -9]));
        assert_eq!(combined(0x7fff_ffff), bytes([3, 7]));
        let mut data = bytes([-9, 8]);
        post_op(Type::I32, Op::SumPostDiv, 2 * 2 + 1, &mut data);
        assert_eq!(data, bytes([-4, 4]));
    }

    #[test]
    fn narrow_floats_are_rounded_to_the_nearest() {
        for bits in 0..=0x7b {
            assert_eq!(F8::<2, 15>::from_f32(F8::<2, 15>(bits).to_f32()).0, bits);
            assert_eq!(F8::<3, 7>::from_f32(F8::<3, 7>(bits).to_f32()).0, bits);
        }
        assert_eq!(F8::<3, 7>::from_f32(-1e9).0, 0xfe);
    }
}
