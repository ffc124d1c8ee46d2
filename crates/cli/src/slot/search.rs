//! By which names NCCL looks for a plugin.

/// The profiler plugin that NCCL loads where no variable names one.
pub(crate) const DEFAULT: &str = "libnccl-profiler.so";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// NCCL loads the first of these names that the loader finds.
    Names(Vec<String>),
    Nothing,
    /// NCCL takes the program itself for the plugin.
    Program,
}

/// How a release looks for a plugin of a kind (`profiler`, `env`), given the value of its variable.
pub(crate) fn search(kind: &str, release: u32, value: Option<&str>) -> Search {
    let Some(value) = value else {
        return Search::Names(vec![format!("libnccl-{kind}.so")]);
    };
    let begins =
        |text: &str| text.len() >= value.len() && text.as_bytes()[..value.len()].eq_ignore_ascii_case(value.as_bytes());
    if release >= 22_803 && value.eq_ignore_ascii_case("none") {
        return Search::Nothing;
    }
    // NCCL compares only as many letters as the value has.
    if begins("STATIC_PLUGIN") {
        return Search::Program;
    }
    let long = format!("libnccl-{kind}-{value}.so");
    let is_file = value.contains('/') || value.starts_with("lib") && value.ends_with(".so");
    Search::Names(match release {
        ..22_600 => vec![value.to_owned()],
        // This release's search by path never succeeds.
        22_703 if value.contains('/') => Vec::new(),
        22_803.. if is_file => vec![value.to_owned()],
        _ => vec![value.to_owned(), long],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(release: u32, value: &str) -> Vec<String> {
        match search("profiler", release, Some(value)) {
            Search::Names(names) => names,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_release_has_its_own_names() {
        assert_eq!(names(22_501, "otf2"), ["otf2"]);
        assert_eq!(names(22_605, "otf2"), ["otf2", "libnccl-profiler-otf2.so"]);
        assert_eq!(names(22_809, "otf2"), ["otf2", "libnccl-profiler-otf2.so"]);
        assert_eq!(names(22_809, "/x/plugin.so"), ["/x/plugin.so"]);
        assert_eq!(names(22_809, "libnccl-profiler-otf2.so"), ["libnccl-profiler-otf2.so"]);
        assert!(names(22_703, "/x/plugin.so").is_empty());
        assert_eq!(search("profiler", 22_304, None), Search::Names(vec![DEFAULT.to_owned()]));
        assert_eq!(search("profiler", 22_809, Some("None")), Search::Nothing);
        assert_eq!(names(22_707, "none"), ["none", "libnccl-profiler-none.so"]);
        for value in ["STATIC_PLUGIN", "stat"] {
            assert_eq!(search("profiler", 22_809, Some(value)), Search::Program);
        }
    }
}
