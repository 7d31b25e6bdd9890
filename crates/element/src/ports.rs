// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port counts, processing codes and flow codes, as Click writes them in a class's descriptor.

/// How packets move through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// The upstream element acts.
    Push,
    /// The downstream element acts.
    Pull,
    /// As its neighbour wants.
    Agnostic,
}

impl std::fmt::Display for Processing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Processing::Push => "push",
            Processing::Pull => "pull",
            Processing::Agnostic => "agnostic",
        })
    }
}

/// Allowed numbers of inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounts {
    /// The fewest and the most inputs.
    pub inputs: (usize, usize),
    /// The same for outputs.
    pub outputs: Outputs,
}

/// How many outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// The fewest and the most.
    Range(usize, usize),
    /// As many as there are inputs, plus this many.
    LikeInputs(usize),
}

impl PortCounts {
    /// Parses `1/1`, `1-/=`, `0/1-2`, `-/6`, `=+`, `5`.
    pub fn parse(code: &str) -> Option<PortCounts> {
        if code == "=" {
            return Some(PortCounts { inputs: (0, usize::MAX), outputs: Outputs::LikeInputs(0) });
        }
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let inputs = range(inputs)?;
        if let Some(more) = outputs.strip_prefix('=') {
            return Some(PortCounts { inputs, outputs: Outputs::LikeInputs(more.len()) });
        }
        let (low, high) = range(outputs)?;
        Some(PortCounts { inputs, outputs: Outputs::Range(low, high) })
    }

    /// The number of inputs, and of outputs, allowed nearest to what is used.
    pub fn nearest(&self, inputs: usize, outputs: usize) -> (usize, usize) {
        let inputs = inputs.clamp(self.inputs.0, self.inputs.1);
        let outputs = match self.outputs {
            Outputs::Range(low, high) => outputs.clamp(low, high),
            Outputs::LikeInputs(more) => inputs + more,
        };
        (inputs, outputs)
    }

    /// In words.
    pub fn describe_inputs(&self) -> String {
        describe(self.inputs, "input")
    }

    /// In words.
    pub fn describe_outputs(&self) -> String {
        match self.outputs {
            Outputs::Range(low, high) => describe((low, high), "output"),
            Outputs::LikeInputs(0) => "as many outputs as inputs".into(),
            Outputs::LikeInputs(n) => format!("{n} more outputs than inputs"),
        }
    }
}

fn describe((low, high): (usize, usize), what: &str) -> String {
    let s = if high == 1 { "" } else { "s" };
    match (low, high) {
        (0, 0) => format!("no {what}s"),
        (low, high) if low == high => format!("{low} {what}{s}"),
        (low, usize::MAX) => format!("{low} or more {what}s"),
        (low, high) => format!("{low} to {high} {what}s"),
    }
}

fn range(text: &str) -> Option<(usize, usize)> {
    let Some((low, high)) = text.split_once('-') else {
        let n = text.parse().ok()?;
        return Some((n, n));
    };
    let low = if low.is_empty() { 0 } else { low.parse().ok()? };
    let high = if high.is_empty() { usize::MAX } else { high.parse().ok()? };
    Some((low, high))
}

/// The letter of port `port` in one side of a processing code; the last letter repeats.
pub fn processing(code: &str, output: bool, port: usize) -> Processing {
    let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
    let side = if output { outputs } else { inputs };
    match side.chars().nth(port).or(side.chars().last()) {
        Some('h') => Processing::Push,
        Some('l') => Processing::Pull,
        _ => Processing::Agnostic,
    }
}

/// What stands for one port in a flow code: a set of letters, where `#` is the port's own number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FlowSet {
    negated: bool,
    items: Vec<char>,
}

/// Private characters that stand for port numbers, so that `#` compares like a letter.
fn port_char(port: usize) -> char {
    char::from_u32(0xF0000 + port as u32).unwrap_or('\u{F0000}')
}

fn flow_set(side: &str, port: usize) -> FlowSet {
    let mut sets = Vec::new();
    let mut chars = side.chars();
    while let Some(c) = chars.next() {
        let mut set = FlowSet { negated: false, items: Vec::new() };
        if c == '[' {
            for (i, c) in chars.by_ref().take_while(|c| *c != ']').enumerate() {
                match (i, c) {
                    (0, '^') => set.negated = true,
                    _ => set.items.push(c),
                }
            }
        } else {
            set.items.push(c);
        }
        sets.push(set);
        if sets.len() > port {
            break;
        }
    }
    let mut set =
        sets.into_iter().take(port + 1).next_back().unwrap_or(FlowSet { negated: false, items: vec!['x'] });
    for c in &mut set.items {
        if *c == '#' {
            *c = port_char(port);
        }
    }
    set
}

/// Whether packets flow from input `input` to output `output` under a flow code.
pub fn flows(code: &str, input: usize, output: usize) -> bool {
    let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
    let (a, b) = (flow_set(inputs, input), flow_set(outputs, output));
    match (a.negated, b.negated) {
        (false, false) => a.items.iter().any(|c| b.items.contains(c)),
        (false, true) => a.items.iter().any(|c| !b.items.contains(c)),
        (true, false) => b.items.iter().any(|c| !a.items.contains(c)),
        (true, true) => true,
    }
}

/// The outputs, of `outputs`, that packets flow to from input `input`.
pub fn flows_to(code: &str, input: usize, outputs: usize) -> impl Iterator<Item = usize> + use<'_> {
    let (range, all) = candidates(code, input, outputs);
    range.filter(move |output| all || flows(code, input, *output))
}

/// The inputs, of `inputs`, from which packets flow to output `output`.
pub fn flows_from(code: &str, output: usize, inputs: usize) -> impl Iterator<Item = usize> + use<'_> {
    let (range, all) = candidates(code, output, inputs);
    range.filter(move |input| all || flows(code, *input, output))
}

/// The ports, of `n`, that may lie across from `port`, and whether all of these do: the usual codes need not be read for each pair.
fn candidates(code: &str, port: usize, n: usize) -> (std::ops::Range<usize>, bool) {
    match code {
        "x/x" => (0..n, true),
        "x/y" => (0..0, true),
        "#/#" => (port.min(n)..(port + 1).min(n), true),
        _ => (0..n, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts_parse_and_clamp() {
        let check = |code: &str, used: (usize, usize), want: (usize, usize)| {
            assert_eq!(PortCounts::parse(code).unwrap().nearest(used.0, used.1), want, "{code}");
        };
        check("1/1", (1, 1), (1, 1));
        check("1/1", (2, 0), (1, 1));
        check("1-/=", (3, 1), (3, 3));
        check("0/1-2", (0, 5), (0, 2));
        check("1/-6", (1, 9), (1, 6));
        check("1-/=+", (2, 0), (2, 3));
        check("-", (4, 7), (4, 7));
        check("0", (1, 1), (0, 0));
        check("=", (3, 0), (3, 3));
        assert!(PortCounts::parse("a/b").is_none());
    }

    #[test]
    fn processing_repeats_its_last_letter() {
        assert_eq!(processing("a/ah", true, 0), Processing::Agnostic);
        assert_eq!(processing("a/ah", true, 5), Processing::Push);
        assert_eq!(processing("h/l", false, 2), Processing::Push);
        assert_eq!(processing("l", true, 0), Processing::Pull);
    }

    #[test]
    fn flow_codes() {
        let check = |code: &str, want: [[bool; 3]; 3]| {
            let got: [[bool; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|o| flows(code, i, o)));
            assert_eq!(got, want, "{code}");
            for (i, row) in want.iter().enumerate() {
                let to: Vec<usize> = (0..3).filter(|o| row[*o]).collect();
                assert_eq!(flows_to(code, i, 3).collect::<Vec<_>>(), to, "{code} from {i}");
                let from: Vec<usize> = (0..3).filter(|a| want[*a][i]).collect();
                assert_eq!(flows_from(code, i, 3).collect::<Vec<_>>(), from, "{code} to {i}");
            }
        };
        check("x/x", [[true; 3]; 3]);
        check("x/y", [[false; 3]; 3]);
        check("#/#", [[true, false, false], [false, true, false], [false, false, true]]);
        check("#/[^#]", [[false, true, true], [true, false, true], [true, true, false]]);
        check("xy/x", [[true; 3], [false; 3], [false; 3]]);
        check("xy/[xy]x", [[true; 3], [true, false, false], [true, false, false]]);
    }
}
