//! The lines of a control file.

use settings::config::StepRanges;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// `recording on`, `recording off`.
    Recording(bool),
    /// `events LIST`: NCCL's mask.
    Events(u32),
    /// `steps LIST`: step ranges, or `steps none`.
    Steps(StepRanges),
}

/// The lines with their numbers, from 1, without empty lines and comments (`#`).
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, Result<Line, String>)> {
    let numbered = text.lines().enumerate();
    numbered.filter_map(|(index, line)| {
        let text = line.split('#').next().unwrap_or("").trim();
        (!text.is_empty()).then(|| (index + 1, line_of(text)))
    })
}

fn line_of(text: &str) -> Result<Line, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("recording", rest) if rest.eq_ignore_ascii_case("on") => Ok(Line::Recording(true)),
        ("recording", rest) if rest.eq_ignore_ascii_case("off") => Ok(Line::Recording(false)),
        ("recording", _) => Err(format!("\"{text}\" is not `recording on` or `recording off`")),
        ("events", "") => Err("`events` without a list".to_owned()),
        ("events", list) => settings::event_kinds(list).map(Line::Events),
        ("steps", list) => StepRanges::parse(list).map(Line::Steps),
        _ => Err(format!("\"{text}\" is not `recording on`, `recording off`, `events LIST` or `steps LIST`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_errors_explained() {
        let text = "recording off # for now\n\n# events none\nRecording ON\nevents light,-Coll\nrecording perhaps\nevents\nstop\nevents Col\nsteps 3-1\nsteps 7-9, 3\n";
        let read: Vec<_> = lines(text).collect();
        assert_eq!(read[0], (1, Ok(Line::Recording(false))));
        assert_eq!(read[1], (4, Ok(Line::Recording(true))));
        let light_without = settings::LIGHT & !nccl_events::Kind::Coll.mask();
        assert_eq!(read[2], (5, Ok(Line::Events(light_without))));
        let steps = StepRanges::parse("3,7-9").expect("two ranges");
        assert_eq!(read[8], (11, Ok(Line::Steps(steps))));
        let reasons: Vec<_> = read[3..8].iter().map(|(n, line)| (*n, line.clone().unwrap_err())).collect();
        assert_eq!(
            reasons,
            [
                (6, "\"recording perhaps\" is not `recording on` or `recording off`".to_owned()),
                (7, "`events` without a list".to_owned()),
                (8, "\"stop\" is not `recording on`, `recording off`, `events LIST` or `steps LIST`".to_owned()),
                (9, "Col is no preset or event kind (nearest: Coll)".to_owned()),
                (10, "\"3-1\" ends before it begins".to_owned()),
            ]
        );
    }
}
