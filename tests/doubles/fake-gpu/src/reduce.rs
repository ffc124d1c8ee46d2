//! Element-wise arithmetic of the collectives, on bytes as they lie in memory, for what `nccl-host` reduces.

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

/// The data types, in the order of their codes (`ncclDataType_t`), and bytes of an element.
macro_rules! types {
    ($($name:ident: $size:literal),*) => {
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub(crate) enum Type { $($name),* }

        impl Type {
            pub(crate) const ALL: [Type; 12] = [$(Type::$name),*];

            pub(crate) fn size(self) -> usize {
                match self { $(Type::$name => $size),* }
            }
        }
    };
}
types! { I8: 1, U8: 1, I32: 4, U32: 4, I64: 8, U64: 8, F16: 2, F32: 4, F64: 8, Bf16: 2, F8e4m3: 1, F8e5m2: 1 }

/// Whether the functions below know this. NCCL makes an average of a sum of products (`PreMulSum`).
pub(crate) fn is_emulated(ty: Type, op: Op) -> bool {
    matches!((ty, op), (Type::I32, Op::Sum | Op::MinMax) | (Type::F32, Op::Sum | Op::PreMulSum))
}

/// `data[i] = data[i] (op) other[i]`
pub(crate) fn combine(ty: Type, op: Op, arg: u64, data: &mut [u8], other: &[u8]) {
    // Minimum and maximum are one operator: the minimum of what results from flipping the bits of a mask.
    let key = |value: i32| value as u32 ^ arg as u32;
    for (own, with) in data.as_chunks_mut().0.iter_mut().zip(other.as_chunks().0) {
        let (left, right) = (i32::from_le_bytes(*own), i32::from_le_bytes(*with));
        *own = match (ty, op) {
            (Type::F32, _) => (f32::from_le_bytes(*own) + f32::from_le_bytes(*with)).to_le_bytes(),
            (_, Op::MinMax) if key(left) < key(right) => left.to_le_bytes(),
            (_, Op::MinMax) => right.to_le_bytes(),
            _ => left.wrapping_add(right).to_le_bytes(),
        };
    }
}

/// The scaling that an operator applies to a rank's own input: `factor` has the bits of an element.
pub(crate) fn pre_op(op: Op, factor: u64, data: &mut [u8]) {
    if op == Op::PreMulSum {
        for own in data.as_chunks_mut().0 {
            *own = (f32::from_le_bytes(*own) * f32::from_bits(factor as u32)).to_le_bytes();
        }
    }
}
