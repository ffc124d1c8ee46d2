//! Cuts properties to a size that fits into an anchor.

use crate::grammar::{Grammar as _, Lines};
use crate::statements::Property;

/// OTF2's anchor is one chunk of 256 KiB for all properties; the rest is for names and the anchor's own numbers.
const MOST_BYTES: usize = 200 << 10;
/// The limit on a list is not halved again below this size, so that lists keep at least half of it.
const SHORT_BYTES: usize = 12 << 10;

/// Cuts the longest lists until all properties together fit. The last line of a cut list says how many are missing.
pub fn within_anchor(mut properties: Vec<Property>) -> Vec<Property> {
    let mut longest = MOST_BYTES;
    loop {
        let lengths = properties.iter().map(|(name, value)| name.len() + value.len());
        if lengths.sum::<usize>() <= MOST_BYTES || longest < SHORT_BYTES {
            return properties;
        }
        longest /= 2;
        for (_, value) in properties.iter_mut().filter(|(_, value)| value.len() > longest) {
            if let Some(mut lines) = Lines::parse(value) {
                lines.cut(longest);
                *value = lines.text();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_until_the_anchor_can_take_all() {
        let names: Vec<String> = (0..20_000).map(|n| format!("host-{n}-1234567890")).collect();
        let entry = |name: &str, lines: &[String]| (name.to_owned(), lines.join("\n"));
        let all = vec![entry("NCCL::A", &names[..20]), entry("NCCL::PARTS", &names), entry("NCCL::B", &names[..9000])];
        let cut = within_anchor(all.clone());
        let bytes: usize = cut.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES / 4, "{bytes}");
        assert_eq!(cut[0], all[0]);
        for ((name, value), (_, before)) in cut.iter().zip(&all).skip(1) {
            let (kept, last) = value.rsplit_once('\n').expect("lines");
            let more = last.strip_prefix("and more: ").expect("says how many are missing");
            let more: usize = more.parse().expect("a number");
            assert_eq!(kept.lines().count() + more, before.lines().count(), "{name}");
            assert!(before.starts_with(kept), "{name}");
        }
        assert_eq!(within_anchor(all[..1].to_vec()), all[..1]);
    }
}
