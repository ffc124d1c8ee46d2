//! Orders the events of two writers on one thread such that the regions of both nest.

/// How an event changes the open regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Enter,
    Leave,
    Other,
}

/// The order by time (whether the next event is NCCL's), or why there is none. At equal times, an NCCL region ends
/// before a Score-P event and begins after it, because Score-P sees the caller.
pub(crate) fn order(
    theirs: impl IntoIterator<Item = (u64, Step)>,
    ours: &[(u64, Step)],
) -> Result<Vec<bool>, &'static str> {
    const CROSSING: &str =
        "their calls and Score-P's regions do not nest: one begins within the other and ends after it";
    let mut theirs = theirs.into_iter().peekable();
    let mut left = ours.iter().copied().peekable();
    let mut order = Vec::new();
    // For each open region, whether it is NCCL's.
    let mut open: Vec<bool> = Vec::new();
    if theirs.peek().zip(ours.first()).is_none_or(|(first, ours)| ours.0 < first.0) {
        return Err("their first call is before Score-P's first event there");
    }
    loop {
        let is_ours = match (theirs.peek(), left.peek()) {
            (None, None) => break,
            (None, Some(_)) => return Err("their last call ends after Score-P's last event there"),
            (Some(_), None) => false,
            (Some((their_time, _)), Some((time, step))) => {
                time < their_time || time == their_time && *step == Step::Leave && open.last() == Some(&true)
            }
        };
        let next = if is_ours { left.next() } else { theirs.next() };
        match next {
            Some((_, Step::Enter)) => open.push(is_ours),
            Some((_, Step::Leave)) if open.pop() != Some(is_ours) => return Err(CROSSING),
            _ => {}
        }
        order.push(is_ours);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::Step::{Enter, Leave, Other};
    use super::*;

    #[test]
    fn regions_of_both_nest_or_there_is_no_order() {
        let theirs = [(0, Other), (1, Enter), (10, Enter), (20, Leave), (30, Leave), (31, Other)];
        let order_of = |ours: &[(u64, Step)]| order(theirs, ours);
        let (o, t) = (true, false);
        // Beside the inner region, within it, and around it.
        assert_eq!(order_of(&[(2, Enter), (9, Leave)]), Ok(vec![t, t, o, o, t, t, t, t]));
        assert_eq!(order_of(&[(11, Enter), (19, Leave)]), Ok(vec![t, t, t, o, o, t, t, t]));
        assert_eq!(order_of(&[(9, Enter), (21, Leave)]), Ok(vec![t, t, o, t, t, o, t, t]));
        // At equal times: within the outer region, and between regions.
        assert_eq!(order_of(&[(1, Enter), (10, Leave)]), Ok(vec![t, t, o, o, t, t, t, t]));
        assert_eq!(order_of(&[(10, Enter), (20, Leave)]), Ok(vec![t, t, t, o, o, t, t, t]));
        assert_eq!(order_of(&[(20, Enter), (30, Leave)]), Ok(vec![t, t, t, t, o, o, t, t]));
        // Crossing, too early, too late.
        assert!(order_of(&[(5, Enter), (15, Leave)]).is_err_and(|reason| reason.contains("do not nest")));
        assert!(order_of(&[(15, Enter), (25, Leave)]).is_err_and(|reason| reason.contains("do not nest")));
        assert!(order([(5, Other), (9, Other)], &[(4, Enter), (8, Leave)]).is_err_and(|it| it.contains("first")));
        assert!(order([(5, Other), (9, Other)], &[(6, Enter), (10, Leave)]).is_err_and(|it| it.contains("last")));
    }
}
