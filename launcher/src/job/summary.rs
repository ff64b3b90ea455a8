//! What is said at the end of a job that failed: the error, the rank that met it, those that were told, and how ranks ended.

use crate::end::{End, ranks_text};
use circulant::error::BELOW;
use circulant::launch::side::Report;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The lines to be said, if any rank said why its world ended. `code`: of the job; `ends`, in order; `folded`: the errors of ranks
/// that were told are not on standard error.
pub(super) fn summary(
    reports: &[(usize, Report)],
    ends: &[(usize, End)],
    code: u8,
    folded: bool,
) -> Option<String> {
    let origin = origin(reports);
    // The one that met it knows most; it may have said nothing.
    let best = reports.iter().find(|(rank, _)| Some(*rank) == origin).or_else(|| reports.first())?;
    let same = |(rank, r): &&(usize, Report)| {
        let by_origin = origin.is_some() && r.told_by == origin;
        *rank == best.0 || by_origin || r.culprit.is_some() && r.culprit == best.1.culprit
    };
    let (same, others): (Vec<_>, Vec<_>) = reports.iter().partition(same);
    let (told, met): (Vec<_>, Vec<_>) = same.into_iter().partition(|(_, r)| r.is_told());
    let told = told.iter().map(|r| r.0).filter(|&rank| Some(rank) != origin).collect();
    let met = met.iter().map(|r| r.0).chain(origin).collect();
    let failed = match code {
        0 => "ranks ended with code 0 after an error".to_owned(),
        code => format!("the job failed (exit code {code})"),
    };
    let mut out = format!("{failed}\n  error: {}", without_rank(best));
    if !best.1.remedy.is_empty() {
        out.push_str(&format!("\n{BELOW}{}", best.1.remedy));
    }
    let others = others.iter().map(|r| r.0).collect();
    let hint = if folded { " (--all-errors prints their lines)" } else { "" };
    for (what, ranks, hint) in [("met by", met, ""), ("told to", told, hint), ("other errors at", others, "")]
    {
        if let Some(ranks) = listed(ranks) {
            out.push_str(&format!("\n  {what}: {ranks}{hint}"));
        }
    }
    if let Some(ends) = ends_text(ends) {
        out.push_str(&format!("\n  ends: {ends}"));
    }
    Some(out)
}

/// The rank that told most of the others.
fn origin(reports: &[(usize, Report)]) -> Option<usize> {
    let mut told: BTreeMap<usize, usize> = BTreeMap::new();
    for rank in reports.iter().filter_map(|(_, r)| r.told_by) {
        *told.entry(rank).or_default() += 1;
    }
    told.into_iter().max_by_key(|&(rank, count)| (count, Reverse(rank))).map(|(rank, _)| rank)
}

/// The error's text, without the rank that it begins with.
fn without_rank((rank, report): &(usize, Report)) -> &str {
    report.text.strip_prefix(&format!("rank {rank}: ")).unwrap_or(&report.text)
}

fn listed(mut ranks: Vec<usize>) -> Option<String> {
    ranks.sort_unstable();
    ranks.dedup();
    (!ranks.is_empty()).then(|| ranks_text(&ranks))
}

/// How the ranks ended that did not end well, those that ended alike together, in the order of the first of each.
fn ends_text(ends: &[(usize, End)]) -> Option<String> {
    let mut kinds: Vec<(End, Vec<usize>)> = Vec::new();
    for &(rank, end) in ends.iter().filter(|(_, end)| !end.is_success()) {
        match kinds.iter_mut().find(|(kind, _)| *kind == end) {
            Some((_, ranks)) => ranks.push(rank),
            None => kinds.push((end, vec![rank])),
        }
    }
    let text = |(end, ranks): (End, Vec<usize>)| {
        let verb = match (end, ranks.len()) {
            (End::Code(_), _) => "",
            (End::Signal(_), 1) => "was ",
            (End::Signal(_), _) => "were ",
        };
        Some(format!("{} {verb}{}", listed(ranks)?, end.words()))
    };
    let texts: Vec<String> = kinds.into_iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rank: usize, told_by: Option<usize>, culprit: Option<usize>, gone: bool) -> (usize, Report) {
        let text = format!("rank {rank}: text of {rank}");
        (rank, Report { told_by, culprit, gone, text, remedy: String::new() })
    }

    #[test]
    fn the_rank_that_told_most_met_it() {
        let reports = [
            report(3, Some(1), None, false),
            report(0, Some(1), None, false),
            report(2, Some(0), None, false),
            report(1, None, Some(7), false),
        ];
        let ends = [(3, End::Code(1)), (7, End::Signal(9)), (1, End::Code(1)), (2, End::Code(0))];
        let want = "the job failed (exit code 1)\n  error: text of 1\n  met by: rank 1\n  told to: ranks 0, 3\n  \
                    other errors at: rank 2\n  ends: ranks 1, 3 exited with code 1; rank 7 was killed by signal 9 (SIGKILL)";
        assert_eq!(summary(&reports, &ends, 1, false).unwrap(), want);
        // It said nothing itself: another's words will do.
        let want = "the job failed (exit code 2)\n  error: text of 3\n  met by: rank 1\n  told to: ranks 0, 3 \
                    (--all-errors prints their lines)\n  other errors at: rank 2";
        assert_eq!(summary(&reports[..3], &[], 2, true).unwrap(), want);
    }

    #[test]
    fn a_dead_rank_is_one_cause_for_all() {
        let reports =
            [report(2, None, Some(1), true), report(0, None, Some(1), true), report(3, None, None, false)];
        let want = "the job failed (exit code 137)\n  error: text of 2\n  told to: ranks 0, 2\n  other errors at: rank 3";
        assert_eq!(summary(&reports, &[], 137, false).unwrap(), want);
        assert_eq!(summary(&[], &[(0, End::Code(1))], 1, true), None);
        // One of them told the others before the launcher did.
        let reports = [report(2, None, Some(1), true), report(0, Some(2), Some(1), false)];
        let want =
            "ranks ended with code 0 after an error\n  error: text of 2\n  met by: rank 2\n  told to: rank 0";
        assert_eq!(summary(&reports, &[(2, End::Code(0))], 0, false).unwrap(), want);
    }
}
