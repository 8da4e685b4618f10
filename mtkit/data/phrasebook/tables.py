"""The phrasebook's words, as plain tables; `lexicon` turns them into objects.

Entries are separated by `;`, fields by blanks, and `_` stands for a blank inside a field. Every
English word has one German word, so that a sentence has one translation.
"""

# group: english[/plural] article german plural [flags]
# weak: n-declension (des Jungen); mass: no plural; one: never used in the plural here; lie, stand:
# the verb for its position (das Buch liegt, die Flasche steht).
NOUNS = {
    "kinsman": """
        father der Vater Väter one; brother der Bruder Brüder; son der Sohn Söhne;
        uncle der Onkel Onkel; grandfather der Großvater Großväter one""",
    "acquaintance": """
        friend der Freund Freunde;
        neighbour der Nachbar Nachbarn weak; teacher der Lehrer Lehrer; doctor der Arzt Ärzte""",
    "male": """
        man/men der Mann Männer; boy der Junge Jungen weak; farmer der Bauer Bauern weak;
        baker der Bäcker Bäcker; student der Student Studenten weak;
        policeman/policemen der Polizist Polizisten weak; gardener der Gärtner Gärtner;
        cook der Koch Köche; driver der Fahrer Fahrer; guest der Gast Gäste;
        painter der Maler Maler; fisherman/fishermen der Fischer Fischer;
        tourist der Tourist Touristen weak; pilot der Pilot Piloten weak;
        waiter der Kellner Kellner; musician der Musiker Musiker; author der Autor Autoren""",
    "kinswoman": """
        mother die Mutter Mütter one; sister die Schwester Schwestern;
        daughter die Tochter Töchter; aunt die Tante Tanten; grandmother die Großmutter Großmütter
        one""",
    "female": """
        woman/women die Frau Frauen; nurse die Krankenschwester Krankenschwestern;
        actress die Schauspielerin Schauspielerinnen; waitress die Kellnerin Kellnerinnen;
        lady die Dame Damen; singer die Sängerin Sängerinnen;
        saleswoman/saleswomen die Verkäuferin Verkäuferinnen; dancer die Tänzerin Tänzerinnen""",
    "young": "child/children das Kind Kinder; girl das Mädchen Mädchen",
    "pet": """
        dog der Hund Hunde; cat die Katze Katzen; rabbit das Kaninchen Kaninchen;
        bird der Vogel Vögel; horse das Pferd Pferde; cow die Kuh Kühe; duck die Ente Enten;
        goat die Ziege Ziegen; donkey der Esel Esel; goose/geese die Gans Gänse""",
    "wild_animal": """
        bear der Bär Bären weak; fox der Fuchs Füchse; lion der Löwe Löwen weak;
        monkey der Affe Affen weak; elephant der Elefant Elefanten weak; frog der Frosch Frösche;
        hedgehog der Igel Igel; mouse/mice die Maus Mäuse; snake die Schlange Schlangen;
        owl die Eule Eulen""",
    "red_fruit": """
        apple der Apfel Äpfel lie; tomato die Tomate Tomaten lie;
        cherry die Kirsche Kirschen lie; strawberry die Erdbeere Erdbeeren lie""",
    "other_fruit": """
        banana die Banane Bananen lie; pear die Birne Birnen lie; orange die Orange Orangen lie;
        lemon die Zitrone Zitronen lie; plum die Pflaume Pflaumen lie;
        potato die Kartoffel Kartoffeln lie; carrot die Karotte Karotten lie;
        peach der Pfirsich Pfirsiche lie; melon die Melone Melonen lie""",
    "dish": """
        cake der Kuchen Kuchen; egg das Ei Eier; roll das Brötchen Brötchen;
        sausage die Wurst Würste; pizza die Pizza Pizzas; soup die Suppe Suppen;
        salad der Salat Salate; pancake der Pfannkuchen Pfannkuchen; biscuit der Keks Kekse""",
    "food": """
        bread das Brot - mass; cheese der Käse - mass; rice der Reis - mass;
        meat das Fleisch - mass; honey der Honig - mass; chocolate die Schokolade - mass;
        jam die Marmelade - mass; fruit das Obst - mass""",
    "drink": """
        water das Wasser - mass; milk die Milch - mass; tea der Tee - mass;
        coffee der Kaffee - mass; juice der Saft - mass; wine der Wein - mass;
        beer das Bier - mass; lemonade die Limonade - mass""",
    "writing": """
        book das Buch Bücher lie; letter der Brief Briefe lie; report der Bericht Berichte lie;
        poem das Gedicht Gedichte; story die Geschichte Geschichten; novel der Roman Romane lie;
        message die Nachricht Nachrichten; postcard die Postkarte Postkarten lie""",
    "periodical": """
        newspaper die Zeitung Zeitungen lie; magazine die Zeitschrift Zeitschriften lie""",
    "motor_vehicle": """
        car das Auto Autos; bus der Bus Busse; lorry der Lastwagen Lastwagen;
        tractor der Traktor Traktoren; taxi das Taxi Taxis""",
    "vehicle": """
        bicycle das Fahrrad Fahrräder; motorbike das Motorrad Motorräder; boat das Boot Boote;
        ship das Schiff Schiffe; train der Zug Züge; plane das Flugzeug Flugzeuge""",
    "garment": """
        shirt das Hemd Hemden lie; coat der Mantel Mäntel lie; dress das Kleid Kleider lie;
        skirt der Rock Röcke lie; jacket die Jacke Jacken lie; blouse die Bluse Blusen lie;
        jumper der Pullover Pullover lie""",
    "accessory": """
        hat der Hut Hüte lie; scarf/scarves der Schal Schals lie; cap die Mütze Mützen lie;
        tie die Krawatte Krawatten lie; belt der Gürtel Gürtel lie""",
    "furniture": """
        table der Tisch Tische; chair der Stuhl Stühle; bed das Bett Betten;
        cupboard der Schrank Schränke; sofa das Sofa Sofas; mirror der Spiegel Spiegel;
        carpet der Teppich Teppiche; armchair der Sessel Sessel;
        desk der Schreibtisch Schreibtische; shelf/shelves das Regal Regale""",
    "device": """
        radio das Radio Radios stand; telephone das Telefon Telefone stand;
        computer der Computer Computer stand; lamp die Lampe Lampen stand;
        television der Fernseher Fernseher stand; camera die Kamera Kameras lie;
        clock die Uhr Uhren stand""",
    "crockery": """
        cup die Tasse Tassen stand; plate der Teller Teller stand; glass das Glas Gläser stand;
        bottle die Flasche Flaschen stand; bowl die Schüssel Schüsseln stand;
        pot der Topf Töpfe stand; knife/knives das Messer Messer lie; fork die Gabel Gabeln lie;
        spoon der Löffel Löffel lie""",
    "luggage": """
        bag die Tasche Taschen stand; basket der Korb Körbe stand; box die Kiste Kisten stand;
        suitcase der Koffer Koffer stand""",
    "thing": """
        key der Schlüssel Schlüssel lie; umbrella der Regenschirm Regenschirme lie;
        pencil der Bleistift Bleistifte lie; ball der Ball Bälle lie; doll die Puppe Puppen lie;
        picture das Bild Bilder lie; photo/photos das Foto Fotos lie;
        present das Geschenk Geschenke lie;
        ticket die Fahrkarte Fahrkarten lie; candle die Kerze Kerzen stand;
        hammer der Hammer Hämmer lie; map die Landkarte Landkarten lie;
        blanket die Decke Decken lie; cushion das Kissen Kissen lie;
        ring der Ring Ringe lie; towel das Handtuch Handtücher lie""",
    "plant": """
        flower die Blume Blumen; rose die Rose Rosen; tulip die Tulpe Tulpen;
        tree der Baum Bäume; bush der Busch Büsche""",
    "opening": "door die Tür Türen; window das Fenster Fenster; gate das Tor Tore",
    "chamber": """
        room das Zimmer Zimmer; kitchen die Küche Küchen; bathroom das Badezimmer Badezimmer;
        cellar der Keller Keller; bedroom das Schlafzimmer Schlafzimmer;
        garage die Garage Garagen""",
    "building": """
        house das Haus Häuser; castle das Schloss Schlösser; tower der Turm Türme;
        bridge die Brücke Brücken; church die Kirche Kirchen;
        museum das Museum Museen; hotel das Hotel Hotels; flat die Wohnung Wohnungen""",
    "lesson": """
        word das Wort Wörter; sentence der Satz Sätze; question die Frage Fragen;
        rule die Regel Regeln; language die Sprache Sprachen; answer die Antwort Antworten""",
    "show": "song das Lied Lieder; concert das Konzert Konzerte; film der Film Filme",
    "nature": """
        garden der Garten Gärten; park der Park Parks; forest der Wald Wälder; lake der See Seen;
        beach der Strand Strände; river der Fluss Flüsse""",
    "fixture": "bench die Bank Bänke; drawer die Schublade Schubladen",
    "ground": "floor der Boden Böden",
    "place": """
        city die Stadt Städte; village das Dorf Dörfer;
        café das Café Cafés; restaurant das Restaurant Restaurants;
        library die Bibliothek Bibliotheken; office das Büro Büros; school die Schule Schulen;
        cinema das Kino Kinos; theatre das Theater Theater; hospital das Krankenhaus Krankenhäuser;
        factory die Fabrik Fabriken; shop das Geschäft Geschäfte; bakery die Bäckerei Bäckereien;
        supermarket der Supermarkt Supermärkte; market der Markt Märkte;
        station der Bahnhof Bahnhöfe; airport der Flughafen Flughäfen; harbour der Hafen Häfen""",
}

# english german [comparative superlative], where the rules do not give them
ADJECTIVES = """
    old alt älter ältest; young jung jünger jüngst; tall groß größer größt; big groß größer größt;
    small klein; new neu neuer neuest; friendly freundlich; happy glücklich; sad traurig; ill krank
    kränker kränkst; tired müde; hungry hungrig; thirsty durstig; famous berühmt; clever klug klüger
    klügst; brave mutig; lazy faul; hard-working fleißig; curious neugierig; rich reich; poor arm
    ärmer ärmst; strong stark stärker stärkst; polite höflich; beautiful schön; cheap billig;
    expensive teuer; heavy schwer; red rot röter rötest; blue blau; green grün; yellow gelb; black
    schwarz schwärzer schwärzest; white weiß; brown braun; grey grau; good gut besser best; fresh
    frisch; sweet süß; ripe reif; cold kalt kälter kältest; warm warm wärmer wärmst; hot heiß;
    delicious lecker; fast schnell; slow langsam; modern modern; long lang länger längst; short kurz
    kürzer kürzest; thick dick; thin dünn; interesting interessant; boring langweilig; exciting
    spannend spannender spannendst; funny lustig; difficult schwierig; easy einfach; important
    wichtig; clean sauber; dirty schmutzig; broken kaputt; empty leer; full voll; dark dunkel;
    bright hell; round rund; comfortable bequem; dangerous gefährlich; wild wild; quiet
    ruhig; loud laut; practical praktisch
"""

# What can be said of the nouns of a group.
ADJECTIVES_OF = {
    "person": """
        old young tall friendly happy sad ill tired hungry famous clever brave lazy hard-working
        curious rich poor strong polite""",
    "pet": "old young big small tired hungry thirsty curious clever brown black white strong",
    "wild_animal": "old young big small hungry wild dangerous curious brown strong",
    "red_fruit": "red fresh sweet ripe big small expensive cheap",
    "other_fruit": "fresh sweet ripe big small expensive cheap",
    "dish": "fresh good delicious warm expensive big small",
    "food": "fresh good delicious expensive cheap",
    "drink": "cold warm good hot fresh",
    "writing": "new old long short interesting boring exciting funny important",
    "periodical": "new old interesting boring thick thin",
    "motor_vehicle": """
        new old fast slow modern red blue white black expensive cheap dirty clean loud""",
    "vehicle": "new old fast slow modern red blue white expensive big small",
    "garment": """
        new old red blue green yellow black white brown grey beautiful warm expensive cheap long
        short clean dirty thick thin""",
    "accessory": "new old red blue green black white brown grey beautiful expensive cheap dirty",
    "furniture": "new old big small brown white beautiful modern heavy expensive cheap comfortable",
    "device": "new old modern broken expensive cheap practical small black",
    "crockery": "new old big small clean dirty beautiful white blue round expensive",
    "luggage": "new old big small heavy empty full brown black practical",
    "thing": "new old beautiful big small expensive cheap red blue yellow",
    "plant": "beautiful big small old green",
    "opening": "new old big small white brown heavy",
    "chamber": "big small dark bright clean dirty warm cold quiet",
    "building": "old new big small beautiful famous modern",
    "lesson": "difficult easy important short long new",
    "show": "new old beautiful long short boring interesting famous",
    "place": "old new big small beautiful modern",
    "nature": "big small beautiful quiet",
    "fixture": "old new big small",
    "ground": "clean dirty cold warm",
}

# english[/past] german [er-form] participle [sein] : what it may be said of
# A group named twice is twice as likely. `|` parts a separable prefix. Without an er-form the
# verb is regular in the present.
TRANSITIVE = """
    buy/bought kaufen gekauft : goods red_fruit other_fruit dish food drink;
    sell/sold verkaufen verkauft : goods red_fruit other_fruit dish food drink;
    eat/ate essen isst gegessen : red_fruit other_fruit dish food food food;
    drink/drank trinken getrunken : drink;
    cook kochen gekocht : soup egg potato rice meat;
    bake backen gebacken : cake pizza roll biscuit bread;
    read/read lesen liest gelesen : writing periodical;
    write/wrote schreiben geschrieben : writing;
    see/saw sehen sieht gesehen : person pet wild_animal wild_animal vehicle motor_vehicle building;
    find/found finden gefunden : thing luggage clothing crockery pet writing device;
    look_for suchen gesucht : thing luggage clothing pet writing hotel flat;
    love lieben geliebt : person pet;
    know/knew kennen gekannt : person building show;
    visit besuchen besucht : person museum castle village concert;
    meet/met treffen trifft getroffen : person;
    invite ein|laden lädt eingeladen : person;
    call an|rufen angerufen : person;
    pick_up ab|holen abgeholt : person luggage present ticket picture;
    wake_up/woke wecken geweckt : person;
    open öffnen geöffnet : opening bottle box suitcase letter;
    close schließen geschlossen : opening box suitcase book;
    clean putzen geputzt : chamber window motor_vehicle bicycle motorbike mirror lamp;
    tidy_up auf|räumen aufgeräumt : chamber cupboard desk shelf flat;
    repair reparieren repariert : motor_vehicle vehicle device furniture opening;
    wash waschen wäscht gewaschen : clothing crockery motor_vehicle towel blanket;
    wear/wore tragen trägt getragen : clothing;
    push schieben geschoben : bicycle motorbike car table cupboard;
    put_on/put an|ziehen angezogen : garment;
    try_on an|probieren anprobiert : clothing;
    need brauchen gebraucht : goods;
    have/had haben hat gehabt : goods pet kin;
    lose/lost verlieren verloren : key umbrella pencil ball ticket ring bag camera hat;
    forget/forgot vergessen vergisst vergessen : thing luggage word rule;
    turn_on ein|schalten eingeschaltet : radio lamp computer television;
    turn_off aus|schalten ausgeschaltet : radio lamp computer television;
    break/broke zerbrechen zerbricht zerbrochen : cup plate glass bottle bowl mirror;
    paint malen gemalt : picture flower tree house horse cat dog;
    draw/drew zeichnen gezeichnet : picture flower tree house wild_animal pet map;
    photograph fotografieren fotografiert : wild_animal pet building plant person;
    feed/fed füttern gefüttert : pet;
    hear/heard hören gehört : song word answer dog bird;
    build/built bauen gebaut : house castle tower bridge boat;
    plant pflanzen gepflanzt : plant;
    water gießen gegossen : flower rose tulip;
    throw_away/threw weg|werfen wirft weggeworfen : letter newspaper magazine clothing bottle;
    borrow aus|leihen ausgeliehen : book novel bicycle camera hammer suitcase umbrella;
    understand/understood verstehen verstanden : lesson message poem report;
    learn lernen gelernt : word language rule poem;
    repeat wiederholen wiederholt : word sentence question rule answer;
    drive/drove fahren fährt gefahren : motor_vehicle;
    like mögen mag gemocht : person pet dish food red_fruit other_fruit show clothing;
    look_at betrachten betrachtet : picture photo map building film plant;
    bring_along/brought mit|bringen mitgebracht : present cake flower bottle salad book
"""
DATIVE = """
    help helfen hilft geholfen : person; thank danken gedankt : person;
    follow folgen gefolgt sein : person; answer antworten geantwortet : person;
    trust vertrauen vertraut : person; congratulate gratulieren gratuliert : person;
    listen_to zu|hören zugehört : person
"""
DITRANSITIVE = """
    give/gave geben gibt gegeben : thing writing red_fruit rose flower;
    show zeigen gezeigt : thing writing clothing device building;
    send/sent schicken geschickt : letter message postcard photo present picture;
    bring/brought bringen gebracht : red_fruit other_fruit dish drink crockery newspaper;
    lend/lent leihen geliehen : book umbrella bicycle car camera hammer suitcase pencil;
    sell/sold verkaufen verkauft : motor_vehicle furniture thing clothing vehicle;
    buy/bought kaufen gekauft : thing clothing writing dish rose flower;
    tell/told erzählen erzählt : story
"""
# german preposition and case follow the participle
PREPOSITIONAL = """
    wait_for warten gewartet auf+acc : person bus train taxi letter answer;
    think_of/thought denken gedacht an+acc : person present;
    talk_about sprechen spricht gesprochen über+acc : person show writing building;
    dream_of träumen geträumt von+dat : person car castle house wild_animal;
    laugh_about lachen gelacht über+acc : story film picture answer;
    play_with spielen gespielt mit+dat : ball doll dog cat child rabbit;
    dance_with tanzen getanzt mit+dat : person
"""
INTRANSITIVE = """
    sleep/slept schlafen schläft geschlafen; work arbeiten gearbeitet; laugh lachen gelacht;
    cry weinen geweint; dance tanzen getanzt; sing/sang singen gesungen; wait warten gewartet;
    play spielen gespielt; smile lächeln gelächelt; swim/swam schwimmen geschwommen sein;
    get_up/got auf|stehen aufgestanden sein; fall_asleep/fell ein|schlafen schläft eingeschlafen
    sein; arrive an|kommen angekommen sein; watch_television fern|sehen sieht ferngesehen;
    have_breakfast/had frühstücken gefrühstückt; go_shopping/went ein|kaufen eingekauft;
    leave/left ab|reisen abgereist sein; come_back/came zurück|kommen zurückgekommen sein
"""
# The verbs that go with a place (where), and those that go with a goal (where to).
LOCATED = """
    live wohnen gewohnt; work arbeiten gearbeitet; stay bleiben geblieben sein;
    wait warten gewartet; sleep/slept schlafen schläft geschlafen; play spielen gespielt;
    dance tanzen getanzt; sing/sang singen gesungen
"""
MOTION = """
    go/went gehen gegangen sein; run/ran laufen läuft gelaufen sein; come/came kommen gekommen sein
"""
TRAVEL = """
    travel/travelled reisen gereist sein; fly/flew fliegen geflogen sein;
    drive/drove fahren fährt gefahren sein; return zurück|kehren zurückgekehrt sein
"""

# place: English and German prepositions, first for where, then for where to, with the German case
# there (where is always the dative).
PLACES = """
    garden in in into in+acc; park in in to in+acc; forest in in into in+acc; city in in to in+acc;
    kitchen in in into in+acc; café in in to in+acc; restaurant in in to in+acc;
    library in in to in+acc; office in in to in+acc; cinema in in to in+acc;
    theatre in in to in+acc; museum in in to in+acc; hospital in in to in+acc;
    hotel in in to in+acc; factory in in to in+acc; church in in to in+acc;
    bakery in in to in+acc; supermarket in in to in+acc; shop in in to in+acc;
    market at auf to auf+acc; station at an to zu+dat; airport at an to zu+dat;
    harbour at an to zu+dat; lake at an to an+acc; beach at an to an+acc; river at an to an+acc;
    village in in to in+acc; cellar in in into in+acc; castle in in to in+acc
"""
FIXED_GOALS = "home nach_Hause; to_work zur_Arbeit; to_school in_die_Schule; to_bed ins_Bett"
# verb: where it happens, as places and as fixed phrases
PLACES_OF = {
    "buy": "supermarket market shop",
    "read": "garden park library café at_home at_school",
    "write": "garden library office café at_home",
    "eat": "garden park kitchen restaurant at_home",
    "drink": "garden kitchen café restaurant at_home",
    "paint": "garden park at_home at_school",
    "draw": "garden park at_home at_school",
    "learn": "library at_home at_school",
    "see": "park forest city station harbour beach village",
    "meet": "park city station airport café library market theatre",
    "find": "garden park forest beach station cellar",
    "look for": "garden cellar office at_home",
    "photograph": "park forest city harbour village",
    "wait": "station airport harbour café museum at_home at_school",
    "live": "city village castle forest hotel in_the_country",
    "work": """
        garden office library hospital hotel factory restaurant bakery supermarket museum
        at_home""",
    "stay": "hotel kitchen garden library office city village at_home in_the_country",
    "sleep": "hotel garden castle cellar at_home",
    "play": "garden park forest beach kitchen at_home at_school",
    "dance": "park kitchen theatre hotel at_home",
    "sing": "church garden theatre park kitchen at_home at_school",
}
FIXED_PLACES = "at_home zu_Hause; at_school in_der_Schule; in_the_country auf_dem_Land"
CITIES = """
    Berlin; Hamburg; Munich München; Vienna Wien; Cologne Köln; Paris; London; Rome Rom;
    Prague Prag; Zurich Zürich
"""
COUNTRIES = """
    Germany Deutschland; Austria Österreich; Italy Italien; Spain Spanien; France Frankreich;
    England; Poland Polen; Greece Griechenland; Norway Norwegen; Denmark Dänemark
"""
# What things lie or stand on, in, under: english preposition and its German one, by support
SUPPORTS = """
    table on under next_to; chair on under next_to behind; bed on under next_to; sofa on behind
    next_to; desk on under next_to; carpet on; shelf on next_to; floor on; bench on under
    next_to; armchair on behind next_to; cupboard in next_to behind in_front_of; bag in next_to;
    basket in next_to; box in next_to behind; suitcase in next_to; drawer in; door behind next_to
    in_front_of; window next_to in_front_of
"""
TWO_WAY = {
    "in": "in",
    "on": "auf",
    "under": "unter",
    "next to": "neben",
    "behind": "hinter",
    "in front of": "vor",
}

# Verbs for a state, which has no time of day, no imperative and no modal.
STATIVE = "love know need have like live"
# What happens to people, and is neither asked for nor wanted.
UNWILLED = "dream_of lose hear break understand fall_asleep arrive cry forget"
# Verbs with one object at a time.
SINGLE_OBJECT = "wear put_on try_on drive"
# noun and where one finds it: There is a ... in the ...
SCENES = {
    "kitchen": "table chair cupboard lamp mirror shelf clock radio",
    "bedroom": "bed cupboard mirror carpet lamp chair sofa",
    "garden": "plant bench dog cat rabbit bird hedgehog frog",
    "park": "plant bench lake café duck",
    "forest": "wild_animal wild_animal lake river castle",
    "city": "church museum theatre castle hotel bridge park market library cinema hospital",
    "village": "church school bakery restaurant bridge shop",
}
HOUSE_ANIMALS = "dog cat rabbit bird mouse hedgehog duck frog"
MALE_PROFESSIONS = "teacher doctor farmer baker gardener cook painter pilot waiter musician author"
FEMALE_PROFESSIONS = "nurse actress waitress singer dancer saleswoman"
PROFESSIONAL = "good famous friendly clever hard-working polite"

# Names for several groups, or several words, at once.
FAMILIES = {
    "clothing": "garment accessory",
    "person": "kinsman acquaintance male kinswoman female young",
    "adult": "kinsman acquaintance male kinswoman female",
    "kin": "brother sister son daughter uncle aunt friend",
    "goods": """
        garment accessory furniture device crockery luggage thing writing motor_vehicle vehicle""",
}

MALE_NAMES = "Peter Paul Martin Daniel Jan Stefan Simon David Oskar Erik"
FEMALE_NAMES = "Anna Maria Julia Laura Sophie Emma Clara Lena Nina Eva"
NUMBERS = """
    two zwei; three drei; four vier; five fünf; six sechs; seven sieben; eight acht; nine neun;
    ten zehn; eleven elf; twelve zwölf
"""
HOURS = "one eins; " + NUMBERS
WEEKDAYS = """
    Monday Montag; Tuesday Dienstag; Wednesday Mittwoch; Thursday Donnerstag; Friday Freitag;
    Saturday Samstag; Sunday Sonntag
"""
PRESENT_TIMES = """
    today heute; every_day jeden_Tag; every_week jede_Woche; every_morning jeden_Morgen;
    every_evening jeden_Abend; in_the_morning am_Morgen; in_the_afternoon am_Nachmittag;
    in_the_evening am_Abend; in_summer im_Sommer; in_winter im_Winter; now jetzt
"""
PAST_TIMES = """
    today heute; yesterday gestern; yesterday_evening gestern_Abend; this_morning heute_Morgen;
    last_week letzte_Woche; last_year letztes_Jahr; last_month letzten_Monat;
    the_day_before_yesterday vorgestern; an_hour_ago vor_einer_Stunde
"""
FUTURE_TIMES = """
    today heute; tomorrow morgen; tomorrow_morning morgen_früh; tomorrow_evening morgen_Abend;
    this_evening heute_Abend; next_week nächste_Woche; next_year nächstes_Jahr;
    next_month nächsten_Monat; the_day_after_tomorrow übermorgen; in_an_hour in_einer_Stunde;
    soon bald
"""
FREQUENCIES = "often oft; always immer; sometimes manchmal; rarely selten; usually meistens"
CIRCUMSTANCES = """
    because_of_the_weather wegen_des_Wetters; despite_the_rain trotz_des_Regens;
    during_the_holidays während_der_Ferien; after_work nach_der_Arbeit;
    before_breakfast vor_dem_Frühstück; after_dinner nach_dem_Abendessen
"""
# the German as it stands behind a conjunction
WEATHER = """
    it_is_raining es_regnet; it_is_snowing es_schneit; it_is_cold es_kalt_ist;
    it_is_hot es_heiß_ist; it_is_dark es_dunkel_ist; the_sun_is_shining die_Sonne_scheint;
    the_weather_is_bad das_Wetter_schlecht_ist; the_weather_is_good das_Wetter_gut_ist
"""
TIME_UNITS = "days Tagen; weeks Wochen; months Monaten"
