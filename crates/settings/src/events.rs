//! Sets of event kinds: presets, and the syntax for users.

use super::values::{nearest, number};
use nccl_events::Kind;
pub use nccl_events::{FULL, LIGHT, STANDARD, event_names};

/// Reads an event set: presets, kinds, `-kind`, numbers.
pub fn event_mask(text: &str) -> Result<u32, String> {
    event_kinds(text).map_err(|reason| format!("{reason}; `standard` is used"))
}

/// As [`event_mask`], for callers without a default.
pub fn event_kinds(text: &str) -> Result<u32, String> {
    let mut mask = 0;
    for word in text.split([',', ' ', '+']).map(str::trim).filter(|word| !word.is_empty()) {
        let (remove, word) = match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let bits = event_bits(word)?;
        mask = if remove { mask & !with_dependents(bits) } else { mask | bits };
    }
    Ok(mask)
}

/// NCCL from 2.31 adds KernelCh to a mask that has KernelPhase: without channels there are no phases.
const fn with_dependents(removed: u32) -> u32 {
    if removed & Kind::KernelCh.mask() == 0 { removed } else { removed | Kind::KernelPhase.mask() }
}

fn event_bits(word: &str) -> Result<u32, String> {
    if let Some(bits) = number(word) {
        return u32::try_from(bits).map(|bits| bits & FULL).map_err(|_| format!("{word} is no event mask"));
    }
    let plain = word.to_ascii_lowercase().replace(['-', '_'], "");
    let plain = plain.strip_prefix("ncclprofile").unwrap_or(&plain);
    let presets = [("light", LIGHT), ("standard", STANDARD), ("full", FULL), ("all", FULL), ("none", 0)];
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Unknown).map(|kind| (kind.name(), kind.mask()));
    let known: Vec<(&str, u32)> = presets.into_iter().chain(kinds).collect();
    match known.iter().find(|(name, _)| name.eq_ignore_ascii_case(plain)) {
        Some((_, bits)) => Ok(*bits),
        None => Err(format!(
            "{word} is no preset or event kind (nearest: {})",
            nearest(plain, known.iter().map(|(name, _)| *name))
        )),
    }
}

/// Names a mask by its preset, or else by its kinds.
pub fn event_set(mask: u32) -> String {
    match mask {
        LIGHT => "light".to_owned(),
        STANDARD => "standard".to_owned(),
        FULL => "full".to_owned(),
        _ => event_names(mask).join(","),
    }
}
