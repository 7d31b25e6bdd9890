// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers and their cores, as the command line names them: `--threads 4`, `--threads 0,2-3`.

/// Workers that a router may have.
pub const MOST_WORKERS: usize = 256;

/// More workers than cores are allowed, and said.
pub fn say_shared(workers: &str, cores: usize) {
    errln!("junctor: {workers} workers share {cores} {}", if cores == 1 { "core" } else { "cores" });
}

/// Cores that this process may use.
pub fn allowed() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|c| c.id).collect()
}

/// Workers and their cores for a plan, which may be for another machine: as many as are asked for, and of this machine's
/// cores those that there are.
///
/// # Errors
/// As of [`parse`].
pub fn planned(threads: Option<&str>) -> Result<(usize, Vec<usize>), String> {
    let allowed = self::allowed();
    match threads.map(|text| (text, text.parse::<usize>())) {
        None => Ok((allowed.len().max(1), allowed)),
        Some((_, Ok(n))) if (1..=MOST_WORKERS).contains(&n) => {
            if n > allowed.len() {
                errln!("junctor: a plan for {n} workers, on a machine with {} cores", allowed.len());
            }
            Ok((n, if n == 1 || n > allowed.len() { Vec::new() } else { allowed }))
        }
        Some((text, _)) => parse(text),
    }
}

/// Reads a number of workers, or a list of cores.
///
/// # Errors
/// It is neither, or this process may not use one of the cores.
pub fn parse(text: &str) -> Result<(usize, Vec<usize>), String> {
    let bad =
        || format!("--threads expects a number of workers or a list of cores such as 0,2-3, not '{text}'");
    let allowed = self::allowed();
    if let Ok(n) = text.parse::<usize>() {
        if !(1..=MOST_WORKERS).contains(&n) {
            return Err(format!(
                "--threads: there may be 1 to {MOST_WORKERS} workers, not {n}; one on core N alone is N-N"
            ));
        }
        if n > allowed.len() {
            say_shared(&n.to_string(), allowed.len());
        }
        // A single worker need not be pinned: the kernel may move it away from other threads.
        return Ok((n, if n == 1 { Vec::new() } else { allowed }));
    }
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) =
            (low.trim().parse().map_err(|_| bad())?, high.trim().parse().map_err(|_| bad())?);
        if low > high {
            return Err(format!("--threads: the cores {low}-{high} should be {high}-{low}"));
        }
        if high > 4096 {
            return Err(bad());
        }
        cores.extend(low..=high);
    }
    if let Some(missing) = cores.iter().find(|c| !allowed.contains(c)) {
        return Err(format!("core {missing} is not one this process may use ({allowed:?})"));
    }
    Ok((cores.len(), cores))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn threads() {
        assert!(parse("0").is_err() && parse("x").is_err() && parse("3-1").is_err());
        assert_eq!(parse("1").map(|t| t.0), Ok(1));
        assert!(parse("4000").is_err());
    }
}
