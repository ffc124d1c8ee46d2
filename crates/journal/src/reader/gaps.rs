//! Segments that should be there: a machine that went down before its disk had all, or a file that was cut or lost,
//! leaves others behind them.

/// Orders that nothing has: from, up to and including.
pub(crate) type Gap = (u64, u64);

/// What is missing before each of the orders, which are sorted and begin with 0 where nothing is missing.
pub(crate) fn before_each(orders: impl Iterator<Item = u64>) -> impl Iterator<Item = Option<Gap>> {
    let mut due = 0;
    orders.map(move |order| {
        let gap = (order > due).then(|| (due, order - 1));
        due = order.saturating_add(1).max(due);
        gap
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_numbers() {
        let gaps = |orders: &[u64]| {
            let gaps = before_each(orders.iter().copied());
            gaps.flatten().collect::<Vec<Gap>>()
        };
        assert_eq!(gaps(&[0, 1, 2]), []);
        assert_eq!(gaps(&[0, 1, 1, 2]), [], "one is there twice");
        assert_eq!(gaps(&[2, 3, 7]), [(0, 1), (4, 6)]);
        assert_eq!(gaps(&[0, u64::MAX]), [(1, u64::MAX - 1)]);
    }
}
