//! Draws a broadcast as SVG: which rank sends which block to which rank in which round.

use std::fmt::Write;

use circulant::schedule::{Circulant, Round, block};

/// A colour per block, told apart also by the colour-blind (Okabe and Ito); repeated beyond eight.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#8a8a00"];

const TOP: u32 = 104;
const LEFT: u32 = 92;
const LANE: u32 = 52;
const CELL: u32 = 15;
/// Room for a round's arrows.
const GAP: u32 = 116;

struct Drawing {
    c: Circulant,
    n: u32,
    svg: String,
}

/// The drawing of a broadcast to P ranks in N blocks, which `words` give: by default 9 and 4.
pub(crate) fn schedule(words: &[&str]) -> Result<String, String> {
    let number = |i: usize, default: u32| words.get(i).map_or(Some(default), |word| word.parse().ok());
    let (p, n) = (number(0, 9).unwrap_or(0), number(1, 4).unwrap_or(0));
    if words.len() > 2 || !(2..=64).contains(&p) || !(1..=16).contains(&n) {
        return Err("draw-schedule [P [N]]: 2 to 64 ranks and 1 to 16 blocks".to_owned());
    }
    let mut drawing = Drawing { c: Circulant::new(p), n, svg: String::new() };
    drawing.draw().map_err(|e| e.to_string())?;
    Ok(drawing.svg)
}

impl Drawing {
    /// The left edge of the held blocks before round `index`.
    fn x(&self, index: u32) -> u32 {
        LEFT + index * (self.n * CELL + GAP)
    }

    /// The middle of a rank's lane.
    fn y(r: u32) -> u32 {
        TOP + r * LANE + LANE / 2
    }

    fn draw(&mut self) -> std::fmt::Result {
        let (p, q, n) = (self.c.p(), self.c.q(), self.n);
        let rounds: Vec<Round> = self.c.rounds(n).collect();
        let (width, height) = (self.x(n - 1 + q) + n * CELL + 24, TOP + p * LANE + 48);
        writeln!(
            self.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <title>Broadcast of {n} blocks to {p} ranks in {} rounds</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>",
            rounds.len()
        )?;
        self.heading(width, height)?;
        let mut held = vec![vec![false; n as usize]; p as usize];
        held[0].fill(true);
        self.held(0, &held)?;
        for round in rounds {
            self.round(round, &mut held)?;
            self.held(round.index + 1, &held)?;
        }
        writeln!(self.svg, "</svg>")
    }

    fn heading(&mut self, width: u32, height: u32) -> std::fmt::Result {
        let (p, q, n) = (self.c.p(), self.c.q(), self.n);
        writeln!(
            self.svg,
            "<text x=\"16\" y=\"30\" font-size=\"18\" font-weight=\"bold\">{p} ranks, {n} blocks: n − 1 + ⌈log₂ p⌉ = {} \
             rounds, every block once at every rank</text>",
            n - 1 + q
        )?;
        for b in 0..n {
            let colour = COLOURS[b as usize % COLOURS.len()];
            writeln!(
                self.svg,
                "<marker id=\"head{b}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" \
                 markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 1 10 5 0 9z\" fill=\"{colour}\"/></marker>"
            )?;
        }
        for r in 0..p {
            let (y, name) = (Self::y(r), if r == 0 { "root 0".into() } else { format!("rank {r}") });
            writeln!(
                self.svg,
                "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"#dddddd\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
                width - 24,
                LEFT - 12,
                y + 5
            )?;
        }
        writeln!(
            self.svg,
            "<text x=\"16\" y=\"{}\" fill=\"#555555\">Boxes: the blocks that a rank has between rounds. In each round \
             rank r sends at most one block, to r + skip (mod p), and receives at most one, from r − skip.</text>",
            height - 18
        )
    }

    /// The blocks at all ranks before round `index`.
    fn held(&mut self, index: u32, held: &[Vec<bool>]) -> std::fmt::Result {
        for (r, blocks) in (0..).zip(held) {
            for (b, &have) in (0..).zip(blocks) {
                let (x, y) = (self.x(index) + b * CELL, Self::y(r) - CELL / 2);
                let colour = COLOURS[b as usize % COLOURS.len()];
                let fill = if have { colour } else { "#ffffff" };
                let edge = if have { colour } else { "#cccccc" };
                write!(
                    self.svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{CELL}\" fill=\"{fill}\" stroke=\"{edge}\"/>",
                    CELL - 2
                )?;
                if have {
                    write!(
                        self.svg,
                        "<text x=\"{}\" y=\"{}\" font-size=\"10\" text-anchor=\"middle\" fill=\"#ffffff\">{b}</text>",
                        x + CELL / 2 - 1,
                        y + CELL - 4
                    )?;
                }
            }
            writeln!(self.svg)?;
        }
        Ok(())
    }

    /// The arrows of a round; marks what arrives as held.
    fn round(&mut self, round: Round, held: &mut [Vec<bool>]) -> std::fmt::Result {
        let (from, to) = (self.x(round.index) + self.n * CELL + 2, self.x(round.index + 1) - 5);
        let middle = u32::midpoint(from, to);
        writeln!(
            self.svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\">round {}</text>\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555555\">skip {}</text>",
            TOP - 36,
            round.index,
            TOP - 18,
            self.c.skip(round.k)
        )?;
        for sender in 0..self.c.p() {
            let receiver = self.c.to(sender, round.k);
            let entry = self.c.send(sender)[round.k as usize];
            // Nothing is ever sent to the root.
            let Some(b) = block(entry, round.offset, self.n).filter(|_| receiver != 0) else { continue };
            let colour = COLOURS[b as usize % COLOURS.len()];
            writeln!(
                self.svg,
                "<line x1=\"{from}\" y1=\"{}\" x2=\"{to}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"1.8\" \
                 marker-end=\"url(#head{b})\"/>",
                Self::y(sender),
                Self::y(receiver)
            )?;
            held[receiver as usize][b as usize] = true;
        }
        Ok(())
    }
}
