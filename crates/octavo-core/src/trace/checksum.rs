//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), eight bytes per step.

const POLYNOMIAL: u32 = 0x82f6_3b78; // 0x1edc6f41, bits reversed

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]) ^ crc;
        let [a, b, c, d] = low.to_le_bytes().map(usize::from);
        let [e, f, g, h] = [eight[4], eight[5], eight[6], eight[7]].map(usize::from);
        crc = TABLES[7][a]
            ^ TABLES[6][b]
            ^ TABLES[5][c]
            ^ TABLES[4][d]
            ^ TABLES[3][e]
            ^ TABLES[2][f]
            ^ TABLES[1][g]
            ^ TABLES[0][h];
    }
    for &byte in eights.remainder() {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[255; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
