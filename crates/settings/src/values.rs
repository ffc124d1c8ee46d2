//! Parsers for values: one word from a list, a size, a signal, a number.

/// Parses one word from a list, ignoring case.
pub(super) fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!(
            "not one of {}; nearest: {}; the default is used",
            names.join(", "),
            nearest(value, names.iter().copied())
        )
    })
}

pub(super) fn size(value: &str) -> Result<u64, String> {
    let bad = || "not a size like 512M or 8G; 8G is used".to_owned();
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match value.get(digits.len()..).unwrap_or("").trim().to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return Err(bad()),
    };
    let count: u64 = digits.parse().map_err(|_| bad())?;
    count.checked_mul(1 << shift).ok_or_else(bad)
}

/// Parses a signal that programs may use freely; `None` for no signal.
pub(super) fn signal(value: &str) -> Result<Option<i32>, String> {
    let name = value.to_ascii_uppercase();
    match name.strip_prefix("SIG").unwrap_or(&name) {
        "NONE" | "OFF" | "0" => return Ok(None),
        "USR1" => return Ok(Some(libc::SIGUSR1)),
        "USR2" => return Ok(Some(libc::SIGUSR2)),
        _ => {}
    }
    let free = |number: i32| {
        [libc::SIGUSR1, libc::SIGUSR2].contains(&number) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number)
    };
    let number = name.parse().ok().filter(|&number| free(number));
    number
        .map(Some)
        .ok_or_else(|| "not USR1, USR2, the number of a real-time signal, or none; the default is used".to_owned())
}

pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    let distance = |known: &&str| strsim::levenshtein(&word.to_ascii_lowercase(), &known.to_ascii_lowercase());
    known.min_by_key(distance).unwrap_or("")
}
