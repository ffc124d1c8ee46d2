//! Element-wise arithmetic of the collectives, on bytes as they lie in memory.

mod narrow;

use narrow::{bf16_to_f32, f8_to_f32, f16_to_f32, f32_to_bf16, f32_to_f8, f32_to_f16};

/// `ncclDataType_t`
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Type {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    F8e4m3,
    F8e5m2,
}

impl Type {
    /// In the order of their codes.
    pub(crate) const ALL: [Type; 12] = [
        Type::I8,
        Type::U8,
        Type::I32,
        Type::U32,
        Type::I64,
        Type::U64,
        Type::F16,
        Type::F32,
        Type::F64,
        Type::Bf16,
        Type::F8e4m3,
        Type::F8e5m2,
    ];

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Type::I8 | Type::U8 | Type::F8e4m3 | Type::F8e5m2 => 1,
            Type::F16 | Type::Bf16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }
}

/// The operators of the device code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Op {
    Sum,
    Prod,
    MinMax,
    PreMulSum,
    SumPostDiv,
}

impl Op {
    /// In the order of their codes.
    pub(crate) const ALL: [Op; 5] = [Op::Sum, Op::Prod, Op::MinMax, Op::PreMulSum, Op::SumPostDiv];
}

/// A number as it lies in memory.
trait Lane: Copy {
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

macro_rules! lane {
    ($($t:ty),*) => {
        $(impl Lane for $t {
            #[inline]
            fn load(bytes: &[u8]) -> $t {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_le_bytes(own)
            }
            #[inline]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        })*
    };
}
lane!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

fn map<T: Lane>(data: &mut [u8], f: impl Fn(T) -> T) {
    for lane in data.chunks_exact_mut(size_of::<T>()) {
        f(T::load(lane)).store(lane);
    }
}

fn zip<T: Lane>(data: &mut [u8], other: &[u8], f: impl Fn(T, T) -> T) {
    let size = size_of::<T>();
    for (lane, with) in data.chunks_exact_mut(size).zip(other.chunks_exact(size)) {
        f(T::load(lane), T::load(with)).store(lane);
    }
}

/// Minimum and maximum are one operator: the minimum of what results from flipping the bits of `mask`.
macro_rules! integers {
    ($data:expr, $other:expr, $op:expr, $arg:expr, $t:ty, $unsigned:ty) => {{
        let mask = $arg as $unsigned;
        match $op {
            Op::Prod => zip::<$t>($data, $other, |a, b| a.wrapping_mul(b)),
            Op::MinMax => zip::<$t>($data, $other, |a, b| {
                if (a as $unsigned ^ mask) < (b as $unsigned ^ mask) {
                    a
                } else {
                    b
                }
            }),
            Op::Sum | Op::PreMulSum | Op::SumPostDiv => {
                zip::<$t>($data, $other, |a, b| a.wrapping_add(b))
            }
        }
    }};
}

fn float(op: Op, arg: u64, a: f64, b: f64) -> f64 {
    match op {
        Op::Prod => a * b,
        Op::MinMax if arg & 1 == 0 => a.min(b),
        Op::MinMax => a.max(b),
        Op::Sum | Op::PreMulSum | Op::SumPostDiv => a + b,
    }
}

/// The narrow types are computed as f32 and rounded.
fn narrow<T: Lane>(
    data: &mut [u8],
    other: &[u8],
    (op, arg): (Op, u64),
    widen: impl Fn(T) -> f32,
    round: impl Fn(f32) -> T,
) {
    zip::<T>(data, other, |a, b| {
        round(float(op, arg, f64::from(widen(a)), f64::from(widen(b))) as f32)
    });
}

/// `data[i] = data[i] (op) other[i]`
pub(crate) fn combine(ty: Type, op: Op, arg: u64, data: &mut [u8], other: &[u8]) {
    let how = (op, arg);
    match ty {
        Type::I8 => integers!(data, other, op, arg, i8, u8),
        Type::U8 => integers!(data, other, op, arg, u8, u8),
        Type::I32 => integers!(data, other, op, arg, i32, u32),
        Type::U32 => integers!(data, other, op, arg, u32, u32),
        Type::I64 => integers!(data, other, op, arg, i64, u64),
        Type::U64 => integers!(data, other, op, arg, u64, u64),
        Type::F32 => match op {
            // In f32: the sum of an f64 would be rounded twice.
            Op::Sum | Op::PreMulSum | Op::SumPostDiv => zip::<f32>(data, other, |a, b| a + b),
            Op::Prod => zip::<f32>(data, other, |a, b| a * b),
            Op::MinMax => zip::<f32>(data, other, |a, b| {
                float(op, arg, f64::from(a), f64::from(b)) as f32
            }),
        },
        Type::F64 => zip::<f64>(data, other, |a, b| float(op, arg, a, b)),
        Type::F16 => narrow(data, other, how, f16_to_f32, f32_to_f16),
        Type::Bf16 => narrow(data, other, how, bf16_to_f32, f32_to_bf16),
        Type::F8e4m3 => narrow(
            data,
            other,
            how,
            |v: u8| f8_to_f32(v, 3, 7),
            |v| f32_to_f8(v, 3, 7),
        ),
        Type::F8e5m2 => narrow(
            data,
            other,
            how,
            |v: u8| f8_to_f32(v, 2, 15),
            |v| f32_to_f8(v, 2, 15),
        ),
    }
}

fn scale_narrow<T: Lane>(
    data: &mut [u8],
    factor: T,
    widen: impl Fn(T) -> f32,
    round: impl Fn(f32) -> T,
) {
    let factor = widen(factor);
    map::<T>(data, |v| round(widen(v) * factor));
}

/// The scaling that some operators apply to a rank's own input.
pub(crate) fn pre_op(ty: Type, op: Op, arg: u64, data: &mut [u8]) {
    if op != Op::PreMulSum {
        return;
    }
    match ty {
        Type::I8 | Type::U8 => map::<u8>(data, |v| v.wrapping_mul(arg as u8)),
        Type::I32 | Type::U32 => map::<u32>(data, |v| v.wrapping_mul(arg as u32)),
        Type::I64 | Type::U64 => map::<u64>(data, |v| v.wrapping_mul(arg)),
        Type::F32 => map::<f32>(data, |v| v * f32::from_bits(arg as u32)),
        Type::F64 => map::<f64>(data, |v| v * f64::from_bits(arg)),
        Type::F16 => scale_narrow(data, arg as u16, f16_to_f32, f32_to_f16),
        Type::Bf16 => scale_narrow(data, arg as u16, bf16_to_f32, f32_to_bf16),
        Type::F8e4m3 => scale_narrow(
            data,
            arg as u8,
            |v| f8_to_f32(v, 3, 7),
            |v| f32_to_f8(v, 3, 7),
        ),
        Type::F8e5m2 => scale_narrow(
            data,
            arg as u8,
            |v| f8_to_f32(v, 2, 15),
            |v| f32_to_f8(v, 2, 15),
        ),
    }
}

/// The division that integer averages end with: `arg` is twice the divisor, plus one for signed types.
pub(crate) fn post_op(ty: Type, op: Op, arg: u64, data: &mut [u8]) {
    let (signed, divisor) = (arg & 1 == 1, i128::from(arg >> 1));
    if op != Op::SumPostDiv || divisor == 0 {
        return;
    }
    macro_rules! divide {
        ($signed:ty, $unsigned:ty) => {
            if signed {
                map::<$signed>(data, |v| (i128::from(v) / divisor) as $signed);
            } else {
                map::<$unsigned>(data, |v| (i128::from(v) / divisor) as $unsigned);
            }
        };
    }
    match ty.size() {
        1 => divide!(i8, u8),
        2 => divide!(i16, u16),
        4 => divide!(i32, u32),
        _ => divide!(i64, u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(op: Op, arg: u64, a: [i32; 2], b: [i32; 2]) -> [i32; 2] {
        let bytes = |v: [i32; 2]| v.map(i32::to_le_bytes).concat();
        let mut data = bytes(a);
        combine(Type::I32, op, arg, &mut data, &bytes(b));
        [i32::load(&data[..4]), i32::load(&data[4..])]
    }

    #[test]
    fn min_max_masks() {
        assert_eq!(
            combined(Op::MinMax, 0x8000_0000, [-5, 7], [3, -9]),
            [-5, -9]
        );
        assert_eq!(combined(Op::MinMax, 0x7fff_ffff, [-5, 7], [3, -9]), [3, 7]);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(combined(Op::Sum, 0, [i32::MAX, 1], [1, 2]), [i32::MIN, 3]);
        assert_eq!(combined(Op::Prod, 0, [65536, -3], [65536, 2]), [0, -6]);
    }

    #[test]
    fn an_average_is_divided_at_the_end() {
        let mut data = (-9_i32).to_le_bytes();
        post_op(Type::I32, Op::SumPostDiv, 2 * 2 + 1, &mut data);
        assert_eq!(i32::from_le_bytes(data), -4);
        let mut data = 250_u8.to_le_bytes();
        post_op(Type::U8, Op::SumPostDiv, 2 * 4, &mut data);
        assert_eq!(data[0], 62);
    }

    #[test]
    fn own_input_is_scaled_before_a_scaled_sum() {
        let mut data = 3.0_f32.to_le_bytes();
        pre_op(
            Type::F32,
            Op::PreMulSum,
            u64::from(0.5_f32.to_bits()),
            &mut data,
        );
        assert_eq!(f32::from_le_bytes(data), 1.5);
        let mut data = 1.0_f32.to_le_bytes();
        pre_op(Type::F32, Op::Sum, 0, &mut data);
        assert_eq!(f32::from_le_bytes(data), 1.0);
    }
}
