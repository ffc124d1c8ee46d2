//! Floating-point types of 8 and 16 bits.

pub(super) fn f16_to_f32(h: u16) -> f32 {
    let sign = u32::from(h >> 15) << 31;
    let exponent = u32::from((h >> 10) & 0x1f);
    let mantissa = u32::from(h & 0x3ff);
    match (exponent, mantissa) {
        (0, m) => {
            let value = m as f32 * (1.0 / 16_777_216.0);
            if sign != 0 { -value } else { value }
        }
        (31, m) => f32::from_bits(sign | 0x7f80_0000 | (m << 13)),
        (e, m) => f32::from_bits(sign | ((e + 112) << 23) | (m << 13)),
    }
}

pub(super) fn f32_to_f16(f: f32) -> u16 {
    let bits = f.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = ((bits >> 23) & 0xff) as i32;
    let mantissa = bits & 0x7f_ffff;
    if exponent == 255 {
        return sign | 0x7c00 | if mantissa != 0 { 0x200 } else { 0 };
    }
    let exponent = exponent - 112;
    if exponent >= 31 {
        return sign | 0x7c00;
    }
    let (mantissa, shift, base) = if exponent <= 0 {
        if exponent < -10 {
            return sign;
        }
        (mantissa | 0x80_0000, 14 - exponent, 0_u32)
    } else {
        (mantissa, 13, (exponent as u32) << 10)
    };
    let mut value = base + (mantissa >> shift);
    let rest = mantissa & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    // To the nearest, ties to even.
    if rest > half || (rest == half && value & 1 == 1) {
        value += 1;
    }
    sign | value as u16
}

pub(super) fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits(u32::from(h) << 16)
}

pub(super) fn f32_to_bf16(f: f32) -> u16 {
    let bits = f.to_bits();
    if f.is_nan() {
        return ((bits >> 16) | 0x40) as u16;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// `bias` is that of the exponent.
pub(super) fn f8_to_f32(v: u8, mantissa_bits: u32, bias: i32) -> f32 {
    let sign = if v & 0x80 != 0 { -1.0 } else { 1.0 };
    let exponent_bits = 7 - mantissa_bits;
    let exponent = i32::from((v >> mantissa_bits) & ((1 << exponent_bits) - 1));
    let fraction = f32::from(v & ((1 << mantissa_bits) - 1)) / (1_u32 << mantissa_bits) as f32;
    let magnitude = if exponent == 0 {
        fraction * 2_f32.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2_f32.powi(exponent - bias)
    };
    sign * magnitude
}

/// The nearest value there is: slow, but exact enough for a test rig.
pub(super) fn f32_to_f8(f: f32, mantissa_bits: u32, bias: i32) -> u8 {
    let largest = if mantissa_bits == 3 { 0x7e } else { 0x7b };
    let magnitude = f.abs();
    let (mut low, mut high) = (0_u8, largest);
    while low < high {
        let middle = low + (high - low) / 2;
        if f8_to_f32(middle, mantissa_bits, bias) < magnitude {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let distance = |v: u8| (f8_to_f32(v, mantissa_bits, bias) - magnitude).abs();
    let best = if low > 0 && distance(low - 1) < distance(low) {
        low - 1
    } else {
        low
    };
    best | if f.is_sign_negative() { 0x80 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_round_trip() {
        for h in 0..=u16::MAX {
            let f = f16_to_f32(h);
            if !f.is_nan() {
                assert_eq!(f32_to_f16(f), h, "{h:#x}");
            }
        }
    }

    #[test]
    fn bf16_round_trip() {
        for h in 0..=u16::MAX {
            let f = bf16_to_f32(h);
            if !f.is_nan() {
                assert_eq!(f32_to_bf16(f), h, "{h:#x}");
            }
        }
    }

    #[test]
    fn f8_round_trip() {
        for v in 0..=0x7b_u8 {
            assert_eq!(f32_to_f8(f8_to_f32(v, 2, 15), 2, 15), v);
        }
        for v in 0..=0x7e_u8 {
            assert_eq!(f32_to_f8(f8_to_f32(v, 3, 7), 3, 7), v);
        }
    }
}
