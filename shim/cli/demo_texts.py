"""What the demonstration embeds: sixty short sentences on six subjects, and questions about them."""

from __future__ import annotations

TEXTS: tuple[str, ...] = (
    # bread
    "Knead the dough until it is smooth and springs back under your thumb.",
    "A sourdough starter wants flour and water at the same hour every day.",
    "Steam in the first minutes lets the loaf rise before the crust sets.",
    "Rye flour holds more water than wheat and makes a dense crumb.",
    "Leave the baked bread on a rack, or its bottom turns soft.",
    "Salt slows the yeast down and gives the bread its taste.",
    "The baker folds the dough every half hour instead of kneading it.",
    "Toast brings an old loaf back for one more breakfast.",
    "Butter rolls are brushed with egg so that they shine.",
    "An oven stone keeps the heat when the door is opened.",
    # the night sky
    "Jupiter's four large moons change places from night to night.",
    "A telescope gathers more light the wider its mirror is.",
    "The Milky Way is lost wherever street lamps are bright.",
    "Comets grow a tail when the sun warms their ice.",
    "On a clear winter evening Orion stands high in the south.",
    "The moon covers the sun completely for a few minutes in an eclipse.",
    "Saturn's rings are thin sheets of ice and dust.",
    "A shooting star is a grain of dust that burns in the atmosphere.",
    "Astronomers measure the distance of near stars by parallax.",
    "Mars looks red because its soil is rusty.",
    # trains
    "The night train to the coast leaves from platform seven.",
    "Snow on the points delayed every train on the line.",
    "A conductor walks through the carriages and checks the tickets.",
    "High-speed rails are welded so that the wheels do not click.",
    "The railway station closes its ticket office at eight.",
    "Freight wagons carry timber down from the hills to the harbour.",
    "Passengers changed to a bus because the tunnel was being repaired.",
    "The steam locomotive takes on water at the old depot.",
    "A season ticket pays off after eleven journeys a month.",
    "The signal stayed red, and the express waited outside the town.",
    # gardening
    "Tomatoes need a stake before the first fruit is heavy.",
    "Compost turns kitchen scraps into dark, crumbly soil.",
    "Water the beds early in the morning, not in the midday sun.",
    "Prune the apple tree in late winter while it sleeps.",
    "Slugs find young lettuce within a single rainy night.",
    "Tulip bulbs are planted in autumn, three times as deep as they are tall.",
    "Bees visit the lavender from June until the end of August.",
    "A mulch of straw keeps weeds down and moisture in.",
    "Roses flower again if the faded blooms are cut off.",
    "Peas climb a net and do not mind a late frost.",
    # software
    "The program crashed because a list was changed while it was read.",
    "A unit test that cannot fail proves nothing.",
    "Commit small changes, so that a bug is found by bisection.",
    "The server answers slowly when the database has no index.",
    "A cache is fast until somebody must decide when it is stale.",
    "Type annotations tell the reader what a function expects.",
    "Two threads without a lock overwrote each other's results.",
    "The compiler warned about a variable that was never used.",
    "An interface should be easy to use and hard to misuse.",
    "Retry a failed network request, but not for ever.",
    # health
    "Wash your hands before you touch the wound.",
    "The doctor listened to her lungs and prescribed rest.",
    "Drink enough when a fever makes you sweat.",
    "A sprained ankle is cooled, raised and left in peace.",
    "The vaccine protects for ten years and is then refreshed.",
    "Too little sleep weakens the immune system.",
    "He takes a tablet for his blood pressure every morning.",
    "The dentist filled two teeth and praised the rest.",
    "Walking half an hour a day is good for the heart.",
    "An allergy to pollen makes the eyes itch in spring.",
)

QUESTIONS: tuple[str, ...] = (
    "How do I bake a loaf with a crisp crust?",
    "Which planets can I see through a small telescope?",
    "Why was my train late this morning?",
)
