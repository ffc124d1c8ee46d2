//! Sets of event kinds: presets and names of kinds.

use crate::Kind;

/// The smallest preset that contains a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// [`LIGHT`].
    Light,
    /// [`STANDARD`].
    Standard,
    /// [`FULL`].
    Full,
}

impl Preset {
    /// The preset of a kind. Unknown kinds are always shown.
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Group | Kind::Coll | Kind::P2p | Kind::GroupApi | Kind::CollApi | Kind::P2pApi => Self::Light,
            Kind::KernelLaunch | Kind::CeColl | Kind::CeSync | Kind::CeBatch | Kind::Unknown => Self::Light,
            Kind::ProxyOp => Self::Standard,
            Kind::ProxyStep | Kind::ProxyCtrl | Kind::KernelCh | Kind::KernelPhase | Kind::NetPlugin => Self::Full,
        }
    }

    const fn mask(self) -> u32 {
        let (mut mask, mut rest) = (0, Kind::ALL.as_slice());
        while let [kind, others @ ..] = rest {
            if Self::of(*kind) as u8 <= self as u8 {
                mask |= kind.mask();
            }
            rest = others;
        }
        mask
    }
}

/// API calls, launches, collectives, point-to-point and copy-engine events.
pub const LIGHT: u32 = Preset::Light.mask();
/// [`LIGHT`] and proxy operations.
pub const STANDARD: u32 = Preset::Standard.mask();
/// All kinds.
pub const FULL: u32 = Preset::Full.mask();

/// The names of the kinds in a mask, for users.
pub fn event_names(mask: u32) -> Vec<&'static str> {
    Kind::ALL.iter().filter(|kind| mask & kind.mask() != 0).map(|kind| kind.name()).collect()
}

/// Extends a mask by `rules`, in order: each adds its second mask if any kind of its first mask is present by then.
pub const fn completed(mask: u32, mut rules: &[(u32, u32)]) -> u32 {
    let mut all = mask;
    while let [(children, parents), rest @ ..] = rules {
        if all & *children != 0 {
            all |= *parents;
        }
        rules = rest;
    }
    all
}
