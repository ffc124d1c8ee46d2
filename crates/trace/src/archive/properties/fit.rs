//! What an anchor cannot take is cut.

/// OTF2's anchor is one chunk of 256 KiB, all properties together, with some for names and the anchor's own numbers.
const MOST_BYTES: usize = 200 << 10;
/// What a list may have in any case.
const SHORT_BYTES: usize = 12 << 10;

/// Cuts the longest lists until all properties together fit. The last line of a list that was cut says how many lines
/// are missing.
#[must_use]
pub fn within_anchor(mut properties: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut longest = MOST_BYTES;
    loop {
        let lengths = properties.iter().map(|(name, value)| name.len() + value.len());
        if lengths.sum::<usize>() <= MOST_BYTES || longest < SHORT_BYTES {
            return properties;
        }
        longest /= 2;
        for (_, value) in properties.iter_mut().filter(|(_, v)| v.len() > longest) {
            *value = beginning(value, longest);
        }
    }
}

/// The first lines, as far as they have at most `bytes` together, and how many follow.
fn beginning(value: &str, bytes: usize) -> String {
    let mut kept = String::new();
    let mut lines = value.lines().peekable();
    while let Some(line) = lines.next_if(|line| kept.len() + line.len() < bytes) {
        kept.push_str(line);
        kept.push('\n');
    }
    let before = value.lines().next_back().and_then(cut_before);
    let rest = lines.count() as u64;
    let more = before.map_or(rest, |before| before + rest.saturating_sub(1));
    format!("{kept}{MORE}{more}")
}

/// How the last line of a list that was cut begins.
const MORE: &str = "and more: ";

/// How many lines are missing from a list that this is the last line of.
fn cut_before(line: &str) -> Option<u64> {
    line.strip_prefix(MORE)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::properties::PARTS;

    #[test]
    fn long_lists_are_cut_until_the_anchor_can_take_all() {
        let names: Vec<String> = (0..20_000).map(|n| format!("host-{n}-1234567890")).collect();
        let said = |name: &str, lines: &[String]| (name.to_owned(), lines.join("\n"));
        let all = vec![said("NCCL::A", &names[..20]), said(PARTS, &names), said("NCCL::B", &names[..9000])];
        let cut = within_anchor(all.clone());
        let bytes: usize = cut.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES / 4, "{bytes}");
        assert_eq!(cut[0], all[0]);
        for ((name, value), (_, before)) in cut.iter().zip(&all).skip(1) {
            let lines: Vec<&str> = value.lines().collect();
            let (last, kept) = lines.split_last().expect("lines");
            let more = cut_before(last).expect("says how many are missing");
            assert_eq!(kept.len() as u64 + more, before.lines().count() as u64, "{name}");
            assert!(before.starts_with(&kept.join("\n")), "{name}");
        }
        assert_eq!(within_anchor(all[..1].to_vec()), all[..1]);
    }
}
