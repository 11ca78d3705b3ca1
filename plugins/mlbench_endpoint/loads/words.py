"""The words of generated prompts: short, common and English, so that most tokenizers make one token of each."""

from __future__ import annotations

WORDS = tuple(
    """
    able about above across act add after again against age ago air all almost alone along already also always among
    and animal answer any appear area arm army art ask away baby back bad bag ball bank base bear beat beauty bed
    before begin behind believe below best better between big bird black blood blue boat body bone book both bottom box
    boy branch bread break bridge bright bring brother brown build burn business busy but buy call camp can captain car
    care carry case cat catch cause cell center chair chance change chief child choose church circle city class clean
    clear climb clock close cloth cloud coast coat cold color come common company complete contain continue control
    cook cool copy corn corner cost could count country course cover cross crowd cry current cut dance dark day dead
    deal dear death decide deep degree desert design die differ dinner direct discuss distance divide doctor dog door
    double down draw dream dress drink drive drop dry during each ear early earth ease east eat edge effect egg eight
    either electric end enemy energy engine enjoy enough enter equal even evening event ever every exact example except
    eye face fact fair fall family famous far farm fast father favor fear feed feel feet few field fight figure fill
    film final find fine finger finish fire first fish fit five flat floor flow flower fly follow food foot for force
    forest form forward four free fresh friend from front fruit full fun game garden gas gather general gentle get girl
    give glad glass go gold gone good got govern grand grass gray great green ground group grow guess
    """.split()
)
