//! Sets of event kinds: presets, and their names.

use crate::Kind;

const fn mask_of(kinds: &[Kind]) -> u32 {
    let mut mask = 0;
    let mut index = 0;
    while index < kinds.len() {
        #[expect(clippy::indexing_slicing, reason = "in a constant: evaluated by the compiler")]
        let kind = kinds[index];
        mask |= kind.mask();
        index += 1;
    }
    mask
}

/// API calls, launches, collectives, point-to-point and copy-engine events.
pub const LIGHT: u32 = mask_of(&[
    Kind::GroupApi,
    Kind::CollApi,
    Kind::P2pApi,
    Kind::KernelLaunch,
    Kind::Group,
    Kind::Coll,
    Kind::P2p,
    Kind::CeColl,
    Kind::CeSync,
    Kind::CeBatch,
]);
/// [`LIGHT`] and proxy operations.
pub const STANDARD: u32 = LIGHT | Kind::ProxyOp.mask();
/// Everything.
pub const FULL: u32 = mask_of(&Kind::ALL);

/// The kinds of a mask by name, for people.
pub fn event_names(mask: u32) -> Vec<&'static str> {
    Kind::ALL.iter().filter(|kind| mask & kind.mask() != 0).map(|kind| kind.name()).collect()
}

/// A mask with what `rules` add: each says which kinds (the second) come with one of others (the first). A rule may add
/// what a later one begins with.
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
