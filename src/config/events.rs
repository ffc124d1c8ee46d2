//! Sets of event kinds: presets, and how a set is written.

use super::values::{distance, number};
use crate::event::Kind;

const fn mask_of(kinds: &[Kind]) -> u32 {
    let mut mask = 0;
    let mut index = 0;
    while index < kinds.len() {
        #[expect(
            clippy::indexing_slicing,
            reason = "in a constant: evaluated by the compiler"
        )]
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
pub const FULL: u32 = 0xffff;

/// Reads an event set: presets, kinds, `-kind`, numbers.
///
/// # Errors
/// Names the word that means nothing, the nearest that does, and what is used instead.
pub fn event_mask(text: &str) -> Result<u32, String> {
    event_kinds(text).map_err(|reason| format!("{reason}; `standard` is used"))
}

/// [`event_mask`] for who has no default.
///
/// # Errors
/// Names the word that means nothing, and the nearest that does.
pub fn event_kinds(text: &str) -> Result<u32, String> {
    let mut mask = 0;
    for word in text
        .split([',', ' ', '+'])
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let (remove, word) = match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let bits = event_bits(word)?;
        mask = if remove {
            mask & !with_dependents(bits)
        } else {
            mask | bits
        };
    }
    Ok(mask)
}

/// NCCL from 2.31 adds KernelCh to a mask that has KernelPhase: without channels there are no phases.
const fn with_dependents(removed: u32) -> u32 {
    if removed & Kind::KernelCh.mask() == 0 {
        removed
    } else {
        removed | Kind::KernelPhase.mask()
    }
}

fn event_bits(word: &str) -> Result<u32, String> {
    if let Some(bits) = number(word) {
        return u32::try_from(bits)
            .map(|bits| bits & FULL)
            .map_err(|_| format!("{word} is no event mask"));
    }
    let plain = word.to_ascii_lowercase().replace(['-', '_'], "");
    let plain = plain.strip_prefix("ncclprofile").unwrap_or(&plain);
    let presets = [
        ("light", LIGHT),
        ("standard", STANDARD),
        ("full", FULL),
        ("all", FULL),
        ("none", 0),
    ];
    let kinds = Kind::ALL
        .iter()
        .filter(|kind| **kind != Kind::Unknown)
        .map(|kind| (kind.name(), kind.mask()));
    let known: Vec<(&str, u32)> = presets.into_iter().chain(kinds).collect();
    match known
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(plain))
    {
        Some((_, bits)) => Ok(*bits),
        None => {
            let nearest = known
                .iter()
                .min_by_key(|(name, _)| distance(plain, &name.to_ascii_lowercase()));
            Err(format!(
                "{word} is no preset or event kind (nearest: {})",
                nearest.map_or("", |n| n.0)
            ))
        }
    }
}

/// The kinds of a mask by name, for people.
#[must_use]
pub fn event_names(mask: u32) -> Vec<&'static str> {
    Kind::ALL
        .iter()
        .filter(|kind| mask & kind.mask() != 0)
        .map(|kind| kind.name())
        .collect()
}
